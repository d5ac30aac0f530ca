// SPDX-License-Identifier: Apache-2.0
// Imports an ONNX model as a graph. Every value of a graph has a static shape, so the import needs the types of the
// inputs. They determine the symbolic dimensions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/onnx/model.h"
#include "unroll/ir/graph.h"

namespace unroll::onnx {

struct ImportedGraph {
  std::shared_ptr<Graph> graph;        // inputs and outputs have the names of the ONNX model
  std::map<std::string, std::int64_t> symbols;  // sizes of the symbolic dimensions
  // Inputs whose values, not only types, determined the graph: trip counts of loops, target shapes, axes.
  std::vector<std::string> specialized;
};

// Returns the inputs without an initializer, which a caller must supply.
std::vector<ValueDef> required_inputs(const Model& model);
std::string input_text(const ValueDef& input);  // "float x [batch,?,40]"

// `known` may contain values of inputs; only those that determine shapes are read. Throws Error(usage|shape|type) for
// missing, unknown or mismatched inputs, and Error(unsupported|input_file|...), which names the node, for nodes that
// cannot be imported.
ImportedGraph import_graph(const Model& model, const std::map<std::string, Type>& inputs, const TensorMap& known = {});
// Imports for the values of a run.
ImportedGraph import_graph(const Model& model, const TensorMap& inputs);

}  // namespace unroll::onnx
