// SPDX-License-Identifier: Apache-2.0
// An ONNX model as a graph. Every value of a graph has a static shape, so a model becomes a graph for given types of
// its inputs; symbolic dimensions take their sizes from them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/onnx/model.h"
#include "unroll/ir/graph.h"

namespace unroll::onnx {

struct ImportedGraph {
  std::shared_ptr<Graph> graph;        // inputs and outputs have ONNX's names
  std::map<std::string, std::int64_t> symbols;  // sizes of the symbolic dimensions
  // Inputs whose values, not only their types, shaped the graph: trip counts of loops, target shapes, axes.
  std::vector<std::string> specialized;
};

// The inputs that a caller must give: those without an initializer.
std::vector<ValueDef> required_inputs(const Model& model);
std::string input_text(const ValueDef& input);  // "float x [batch,?,40]"

// `known` may have values of inputs; only what shapes depend on is read. Throws Error(usage|shape|type) on inputs that
// are missing, unknown or do not fit, and Error(unsupported|input_file|...) that names the node, on nodes that cannot
// be imported.
ImportedGraph import_graph(const Model& model, const std::map<std::string, Type>& inputs, const TensorMap& known = {});
// For the values of a run.
ImportedGraph import_graph(const Model& model, const TensorMap& inputs);

}  // namespace unroll::onnx
