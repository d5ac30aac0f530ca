// SPDX-License-Identifier: Apache-2.0
// Imports an ONNX model as a sequential model: RNN, GRU and LSTM nodes with linear layers, an embedding, activations
// and a pooling. Exporters write dozens of nodes that move elements between layers (transposed batches, stacked
// directions, states of all layers in one tensor), each in a different way. The importer therefore does not match
// patterns of nodes: it tracks the origin of each value's elements.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frontends/onnx/model.h"
#include "unroll/tasks/sequential.h"

namespace unroll::onnx {

// Mapping of a tensor of the ONNX model to the imported one: its element k is element `elements[k]` of unroll's tensor
// `ours[k]`. These are named "x" or "ids", "y", and the states "state.0", ... (unroll/tasks/sequential.h).
struct PlacedTensor {
  std::string name;  // in the ONNX model
  Type type;
  std::vector<std::string> names;
  std::vector<std::int32_t> ours, elements;
};

struct LayerImport {
  ImportedModel imported;
  std::vector<PlacedTensor> inputs, outputs;  // the first output is y
  std::map<std::string, std::int64_t> sizes;  // T and B of unroll's tensors
};

// `types`: types of the model's inputs, with sizes that the model can run. Throws Error(unsupported), with the node, if
// the model is not sequential, and errors of import_graph.
LayerImport import_layers(const Model& model, const std::map<std::string, Type>& types);

}  // namespace unroll::onnx
