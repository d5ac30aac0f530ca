// SPDX-License-Identifier: Apache-2.0
// An initializer that several nodes read becomes a parameter of each layer: no layer is lost.
#include <doctest/doctest.h>

#include "frontends/onnx/layers/import_layers.h"

namespace unroll::onnx::test_tied {
namespace {

constexpr std::int64_t V = 5, H = 2;

NodeDef node(const std::string& op, std::vector<std::string> inputs, const std::string& output) {
  return {.name = output, .op = op, .domain = {}, .inputs = std::move(inputs), .outputs = {output}, .attributes = {}};
}
NodeDef lstm(const std::string& x, const std::string& y) {
  NodeDef made = node("LSTM", {x, "lstm.w", "lstm.r"}, y);
  AttributeDef hidden;
  hidden.name = "hidden_size";
  hidden.type = AttributeType::integer;
  hidden.i = H;
  made.attributes = {hidden};
  return made;
}
std::shared_ptr<const Tensor> numbers(const Shape& shape) {
  Tensor tensor(DType::f32, shape);
  for (std::int64_t k = 0; k < tensor.elements(); ++k) tensor.set(k, 0.01 * static_cast<double>(k + 1));
  return std::make_shared<Tensor>(std::move(tensor));
}

// ids [T,B] -> rows of a table -> twice the same LSTM -> a product with the same table, y [T,B,V].
Model tied_model() {
  Model model{.file = "tied.onnx", .ir_version = 8, .opset = 17, .producer = {}, .graph = {}, .functions = {},
              .metadata = {}};
  model.graph.inputs = {{.name = "ids", .element_type = k_int64, .shape = {}}};
  model.graph.outputs = {{.name = "y", .shape = {}}};
  model.graph.initializers = {{"embedding.weight", numbers({V, H})},
                              {"lstm.w", numbers({1, 4 * H, H})},
                              {"lstm.r", numbers({1, 4 * H, H})},
                              {"one", std::make_shared<Tensor>(Tensor::from<std::int32_t>({1}, {1}))}};
  model.graph.nodes = {node("Gather", {"embedding.weight", "ids"}, "x"),
                       lstm("x", "h1"),
                       node("Squeeze", {"h1", "one"}, "y1"),
                       lstm("y1", "h2"),
                       node("Squeeze", {"h2", "one"}, "y2"),
                       node("Transpose", {"embedding.weight"}, "back"),
                       node("MatMul", {"y2", "back"}, "y")};
  return model;
}

TEST_CASE("layers that share initializers are all imported, each with the values") {
  const Model model = tied_model();
  const ImportedModel imported = import_layers(model, {{"ids", {DType::i32, {4, 3}}}}).imported;
  std::vector<std::string> kinds;
  int recurrent = 0;
  for (const SequentialLayer& layer : imported.model.layers) {
    kinds.push_back(layer.kind);
    recurrent += layer.kind == "recurrent" ? layer.model.layers : 0;
  }
  CHECK(kinds.front() == "embedding");
  CHECK(kinds.back() == "linear");
  CHECK(recurrent == 2);
  CHECK(imported.parameters.size() == 6);  // two matrices of each LSTM, the embedding and the linear layer
  CHECK(imported.mapping.size() == 6);
  int tables = 0;
  for (const MappedTensor& row : imported.mapping) {
    CAPTURE(row.to);
    tables += row.from == "embedding.weight";
    const Tensor& tensor = imported.parameters.at(row.to);
    CHECK(tensor.elements() == (row.from == "embedding.weight" ? V * H : 4 * H * H));
  }
  CHECK(tables == 2);
}

}  // namespace
}  // namespace unroll::onnx::test_tied
