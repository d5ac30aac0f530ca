// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/common/task_parts.h"
#include "core/tasks/table/table_network.h"
#include "unroll/ir/ops.h"

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
