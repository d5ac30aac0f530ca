// SPDX-License-Identifier: Apache-2.0
// An ONNX model as layers in a row: RNN, GRU and LSTM nodes with linear layers, an embedding, activations and a
// pooling. Exporters write dozens of nodes that move elements between them (transposed batches, stacked directions,
// states of all layers in one tensor), each in its own way. So the importer does not match patterns of nodes: it
// follows where the elements of each value come from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frontends/onnx/model.h"
#include "unroll/tasks/sequential.h"

namespace unroll::onnx {

// A tensor of the ONNX model in terms of the imported one: its element k is element `elements[k]` of our tensor
// `ours[k]`, of the names below. Ours are "x" or "ids", "y", and the states "state.0", ...
// (unroll/tasks/sequential.h).
struct PlacedTensor {
  std::string name;  // in the ONNX model
  Type type;
  std::vector<std::string> names;
  std::vector<std::int32_t> ours, elements;
};

struct LayerImport {
  ImportedModel imported;
  std::vector<PlacedTensor> inputs, outputs;  // the first output is y
  std::map<std::string, std::int64_t> sizes;  // T and B of our tensors
};

// `types` of the model's inputs: sizes that the model can run. Throws Error(unsupported), with the node, on whatever is
// no layer in a row, and errors of import_graph.
LayerImport import_layers(const Model& model, const std::map<std::string, Type>& types);

// Types of the inputs with `sizes` for the free dimensions: the same size for dimensions of the same name, the first
// for the first name, and so on.
std::map<std::string, Type> input_types(const Model& model, std::vector<std::int64_t> sizes);

}  // namespace unroll::onnx
