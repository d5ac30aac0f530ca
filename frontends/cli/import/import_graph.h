// SPDX-License-Identifier: Apache-2.0
// `unroll import FILE.onnx` for a model that is no chain of layers. A build without protozero uses no_onnx.cc.
#pragma once

#include <string>

#include "frontends/cli/import/stream_onnx.h"
#include "unroll/support/tensor.h"
#include "unroll/tasks/inference.h"

namespace unroll::cli {

struct GraphImport {
  Metadata metadata;
  TensorMap parameters;
};
// Stores the graph as text for any number of steps. Compares it with the file at two lengths on random input. `report`
// receives the decisions, what a stream of the model needs, and the comparison. Throws Error(differ) if outputs differ.
GraphImport import_onnx_graph(const std::string& file, const OnnxStreamArguments& options, Report& report);

}  // namespace unroll::cli
