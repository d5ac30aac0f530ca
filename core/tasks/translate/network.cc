// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/common/task_rows.h"
#include "core/tasks/decode/attention_network.h"

namespace unroll {

const NetworkRow translate_network_row{
    [](const Metadata& metadata) { return written_inference(metadata, /*logs=*/true); }};

}  // namespace unroll
