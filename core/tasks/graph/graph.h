// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unroll/model/stream.h"
#include "unroll/tasks/graph.h"
#include "unroll/tasks/inference.h"

namespace unroll {

// Throw Error(input_file) on incomplete metadata or invalid text.
Inference graph_inference(const Metadata& metadata);
StreamModel graph_stream(const Metadata& metadata);

}  // namespace unroll
