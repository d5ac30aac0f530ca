// SPDX-License-Identifier: Apache-2.0
// Sequences of the parts of a tensor: each part is the right one, and a model made for another length is refused.
#include <doctest/doctest.h>

#include "frontends/onnx/import.h"
#include "tests/onnx/small_models.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

std::shared_ptr<const Tensor> integers(std::vector<std::int32_t> values, bool is_scalar = false) {
  const Shape shape = is_scalar ? Shape{} : Shape{static_cast<std::int64_t>(values.size())};
  return std::make_shared<Tensor>(Tensor::from<std::int32_t>(shape, values));
}

// Splits x along `axis` and joins the parts at `positions` again, along the first axis.
Model split_model(const std::vector<std::int32_t>& positions, std::int64_t axis, bool keeps_axis,
                  std::shared_ptr<const Tensor> split = nullptr) {
  Model model{.file = "test.onnx", .ir_version = 8, .opset = 17, .producer = {}, .graph = {}, .functions = {},
              .metadata = {}};
  GraphDef& graph = model.graph;
  graph.inputs = {{.name = "x", .element_type = k_float, .shape = {}}};
  graph.outputs = {{.name = "y", .shape = {}}};
  NodeDef splits{.name = "splits", .op = "SplitToSequence", .domain = {}, .inputs = {"x"}, .outputs = {"parts"},
                 .attributes = {attribute("axis", axis), attribute("keepdims", keeps_axis)}};
  if (split) {
    splits.inputs.emplace_back("split");
    graph.initializers.emplace("split", split);
  }
  graph.nodes.push_back(splits);
  NodeDef joins{.name = "joins", .op = "Concat", .domain = {}, .inputs = {}, .outputs = {"y"},
                .attributes = {attribute("axis", 0)}};
  for (std::size_t k = 0; k < positions.size(); ++k) {
    const std::string position = "position" + std::to_string(k), part = "part" + std::to_string(k);
    graph.initializers.emplace(position, integers({positions[k]}, true));
    graph.nodes.push_back({.name = "reads" + std::to_string(k), .op = "SequenceAt", .domain = {},
                           .inputs = {"parts", position}, .outputs = {part}, .attributes = {}});
    joins.inputs.push_back(part);
  }
  graph.nodes.push_back(joins);
  return model;
}

// y for x [3,2] of 0 to 5.
std::vector<float> result_of(const Model& model) {
  const TensorMap inputs{{"x", Tensor::from<float>({3, 2}, {0, 1, 2, 3, 4, 5})}};
  const auto backend = make_backend("reference");
  const Tensor y = evaluate(*import_graph(model, inputs).graph, *backend, inputs).at("y");
  const auto values = y.values<float>();
  return {values.begin(), values.end()};
}

std::string message_of(const Model& model) {
  try {
    result_of(model);
  } catch (const Error& e) {
    return std::string(error_kind_name(e.kind())) + ": " + e.what();
  }
  return "";
}

using Floats = std::vector<float>;

TEST_CASE("parts are those of the axis, counted from either end, with the axis or without") {
  CHECK(result_of(split_model({2, 0, 1}, 0, true)) == Floats{4, 5, 0, 1, 2, 3});
  CHECK(result_of(split_model({-1, -2, 0}, 0, false)) == Floats{4, 5, 2, 3, 0, 1});
  CHECK(result_of(split_model({1, 0}, 1, false)) == Floats{1, 3, 5, 0, 2, 4});
  CHECK(result_of(split_model({1, 0}, -1, true)) == Floats{1, 3, 5, 0, 2, 4});
}

TEST_CASE("the sizes of parts are given, or one for all with a smaller last part") {
  CHECK(result_of(split_model({1, 0}, 0, false, integers({1, 2}))) == Floats{2, 3, 4, 5, 0, 1});
  CHECK(result_of(split_model({1, 0}, 0, true, integers({2}, true))) == Floats{4, 5, 0, 1, 2, 3});
}

TEST_CASE("a model that reads fewer or more parts than there are is refused, and the length is named") {
  const std::string fewer = message_of(split_model({0, 1, 1}, 0, false));
  CHECK_MESSAGE(fewer.find("unsupported") == 0, fewer);
  CHECK_MESSAGE(fewer.find("reads 2 of the 3 tensors of the sequence 'parts'") != std::string::npos, fewer);
  CHECK_MESSAGE(fewer.find("exported for another length") != std::string::npos, fewer);
  for (const std::int32_t position : {3, -4}) {
    const std::string more = message_of(split_model({0, 1, 2, position}, 0, false));
    CHECK_MESSAGE(more.find("(SequenceAt): reads element " + std::to_string(position) + " of 3") != std::string::npos,
                  more);
  }
}

TEST_CASE("sizes that do not fit, a sequence as a tensor and a tensor as a sequence are refused") {
  const auto has = [](const Model& model, const std::string& text) {
    const std::string found = message_of(model);
    CHECK_MESSAGE(found.find(text) != std::string::npos, found);
  };
  has(split_model({0}, 0, true, integers({1, 3})), "split exceeds the axis");
  has(split_model({0}, 0, true, integers({1, 1})), "split does not add up to 3");
  has(split_model({0}, 0, true, integers({-1, 4})), "split exceeds the axis");
  has(split_model({0}, 0, true, integers({0}, true)), "split must be positive");
  Model as_tensor = split_model({0, 1, 2}, 0, true);
  as_tensor.graph.nodes.back().inputs[0] = "parts";
  has(as_tensor, "input 'parts' is a sequence of tensors");
  Model as_sequence = split_model({0}, 0, true);
  as_sequence.graph.nodes[1].inputs[0] = "x";
  has(as_sequence, "must be the output of a SplitToSequence");
  Model twice = split_model({0, 1, 2}, 0, true);
  twice.graph.nodes[1].outputs[0] = "parts";
  has(twice, "the name 'parts' is defined twice");
  twice.graph.nodes[1] = twice.graph.nodes[0];
  has(twice, "the name 'parts' is defined twice");
}

}  // namespace
}  // namespace unroll::onnx
