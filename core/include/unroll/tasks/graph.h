// SPDX-License-Identifier: Apache-2.0
// Any graph as a model without a task, such as an imported ONNX file. Its text is stored with the parameters in one
// file, so inference.h and stream.h read it. T steps.
#pragma once

#include <cstdint>
#include <string>

#include "unroll/support/export.h"
#include "unroll/support/tensor.h"
#include "unroll/tasks/shared.h"

namespace unroll {

struct GraphModel {
  // print_for_lengths. Its inputs are `input` and the parameters, f32, by name.
  std::string text;
  std::string input;
  std::string output;           // of the stream; empty: the first one that is a sequence
  std::int64_t look_ahead = 0;  // that the stream allows
};

// Returns metadata with the task "graph". task_inference: the input and all outputs, with the letter T for axes of T
// positions, and letters N0, N1, ... for others that depend on T. task_stream: see unroll/passes/block_stream.h. Throws
// Error(usage) if the text has no such input, and errors of parse_for_length.
UNROLL_API Metadata graph_metadata(const GraphModel& model);

}  // namespace unroll
