// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/common/task_parts.h"
#include "frontends/tasks/table/table_network.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

Inference classify_inference(const Metadata& metadata) {
  return TableNetwork::of(metadata).inference("probabilities", get_integer(metadata, "classes"),
                                              [](Value logits) { return softmax(logits); });
}

StreamModel classify_stream(const Metadata& metadata) {
  return TableNetwork::of(metadata).stream(get_integer(metadata, "classes"));
}

}  // namespace

const NetworkRow classify_network_row{classify_inference, classify_stream};

}  // namespace unroll
