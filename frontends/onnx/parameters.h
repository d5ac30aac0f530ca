// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "frontends/onnx/model.h"
#include "unroll/ir/graph.h"

namespace unroll::onnx {

struct OpenGraph {
  std::shared_ptr<Graph> graph;  // parameters are inputs
  TensorMap parameters;
};
// Returns the graph with its f32 constants of several elements as inputs. Long constants of integers become f32 inputs
// too, if f32 represents them exactly. The inputs have the names of the initializers, or "constant.0", "constant.1",
// ... in the order of the nodes. Constants whose elements are all equal become broadcasts.
OpenGraph with_parameters(const Graph& graph, const Model& model);

}  // namespace unroll::onnx
