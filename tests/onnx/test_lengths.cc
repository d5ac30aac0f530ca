// SPDX-License-Identifier: Apache-2.0
// sequence_lens that are no number of steps are refused, as inputs, as initializers and in the body of a loop; and a
// loop that does not begin ends.
#include <doctest/doctest.h>

#include "frontends/onnx/import.h"
#include "tests/onnx/small_models.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::onnx::test_lengths {
namespace {

constexpr std::int64_t T = 5, B = 2, I = 3, H = 2;

Model model_of(std::vector<ValueDef> inputs, std::vector<NodeDef> nodes) {
  Model model{.file = "test.onnx", .ir_version = 8, .opset = 17, .producer = {}, .graph = {}, .functions = {},
              .metadata = {}};
  model.graph.inputs = std::move(inputs);
  model.graph.outputs = {{.name = "y", .shape = {}}};
  model.graph.nodes = std::move(nodes);
  return model;
}

struct Reader {
  const char* op;
  std::int64_t gates;  // 0: no recurrent operator
  const char* direction;
};
constexpr Reader k_readers[] = {{"ReverseSequence", 0, ""},      {"RNN", 1, "forward"}, {"RNN", 1, "reverse"},
                                {"GRU", 3, "bidirectional"},     {"LSTM", 4, "forward"}, {"LSTM", 4, "reverse"},
                                {"LSTM", 4, "bidirectional"}};

// y of x [T,B,I] and lengths [B].
Model reader_model(const Reader& reader) {
  NodeDef node{.name = "reads", .op = reader.op, .domain = {}, .inputs = {"x", "lengths"}, .outputs = {"y"},
               .attributes = {}};
  Model model = model_of({{.name = "x", .element_type = k_float, .shape = {}},
                          {.name = "lengths", .element_type = 0, .shape = {}}}, {});
  if (reader.gates > 0) {
    const std::int64_t d = reader.direction == std::string("bidirectional") ? 2 : 1;
    node.inputs = {"x", "w", "r", "", "lengths"};
    node.attributes = {attribute("hidden_size", H), attribute("direction", std::string(reader.direction))};
    model.graph.initializers.emplace("w", std::make_shared<Tensor>(DType::f32, Shape{d, reader.gates * H, I}));
    model.graph.initializers.emplace("r", std::make_shared<Tensor>(DType::f32, Shape{d, reader.gates * H, H}));
  }
  model.graph.nodes = {node};
  return model;
}

TensorMap inputs_with(std::int32_t length) {
  return {{"x", Tensor(DType::f32, {T, B, I})}, {"lengths", Tensor::from<std::int32_t>({B}, {T, length})}};
}

std::string refusal(const Model& model, const TensorMap& inputs) {
  const Result<void> done = attempt([&] {
    const auto backend = make_backend("reference");
    evaluate(*import_graph(model, inputs).graph, *backend, inputs);
  });
  return done.ok() ? "" : done.error().what();
}

TEST_CASE("each operator with sequence_lens runs with 0 to T, and refuses others") {
  for (const Reader& reader : k_readers)
    for (const std::int32_t length : {-1, 0, 5, 6}) {
      CAPTURE(reader.op);
      CAPTURE(reader.direction);
      CAPTURE(length);
      const std::string wrong =
          "has " + std::to_string(length) + " as element 1; it must be between 0 and 5, the number of steps";
      const bool is_valid = length >= 0 && length <= T;
      Model model = reader_model(reader);
      const std::string bound = refusal(model, inputs_with(length));
      CHECK_MESSAGE(bound == (is_valid ? "" : "[Program::run] input 'lengths' " + wrong), bound);

      TensorMap inputs = inputs_with(length);
      model.graph.initializers.emplace("lengths", std::make_shared<Tensor>(std::move(inputs.at("lengths"))));
      inputs.erase("lengths");
      const std::string stored = refusal(model, inputs);
      CHECK_MESSAGE(is_valid == stored.empty(), stored);
      CHECK_MESSAGE((is_valid || stored.find(wrong) != std::string::npos), stored);
      CHECK_MESSAGE((is_valid || stored.find("node 'reads'") != std::string::npos), stored);
    }
}

TEST_CASE("ReverseSequence turns the steps of each length, and wants one length per row") {
  const Model model = model_of({{.name = "x", .element_type = k_float, .shape = {}},
                                {.name = "lengths", .element_type = 0, .shape = {}}},
                               {{.name = "turns", .op = "ReverseSequence", .domain = {}, .inputs = {"x", "lengths"},
                                 .outputs = {"y"}, .attributes = {}}});
  TensorMap inputs{{"x", Tensor::from<float>({5, 1}, {1, 2, 3, 4, 5})}, {"lengths", Tensor(DType::i32, {1})}};
  const auto reversed = [&](std::int32_t length) {
    inputs.at("lengths").set(0, length);
    const auto backend = make_backend("reference");
    const Tensor y = evaluate(*import_graph(model, inputs).graph, *backend, inputs).at("y");
    return std::vector<float>(y.values<float>().begin(), y.values<float>().end());
  };
  CHECK(reversed(5) == std::vector<float>{5, 4, 3, 2, 1});
  CHECK(reversed(3) == std::vector<float>{3, 2, 1, 4, 5});
  CHECK(reversed(0) == std::vector<float>{1, 2, 3, 4, 5});
  inputs.insert_or_assign("lengths", Tensor(DType::i32, {2}));
  CHECK(refusal(model, inputs).find("sequence_lens is [2], not one per row") != std::string::npos);
}

// Doubles y while the condition that the body is given holds, `trips` times at most ("": no limit).
Model loop_model(const std::string& trips, bool begins) {
  const auto b8 = [](bool value) { return std::make_shared<Tensor>(Tensor::from<std::uint8_t>({}, {value})); };
  auto body = std::make_shared<GraphDef>();
  body->inputs = {{.name = "i", .shape = {}}, {.name = "goes_on", .shape = {}}, {.name = "s", .shape = {}}};
  body->outputs = {{.name = "still", .shape = {}}, {.name = "next", .shape = {}}, {.name = "each", .shape = {}}};
  body->nodes = {{.name = "c", .op = "Identity", .domain = {}, .inputs = {"goes_on"}, .outputs = {"still"},
                  .attributes = {}},
                 {.name = "a", .op = "Add", .domain = {}, .inputs = {"s", "s"}, .outputs = {"next"}, .attributes = {}},
                 {.name = "e", .op = "Identity", .domain = {}, .inputs = {"s"}, .outputs = {"each"}, .attributes = {}}};
  AttributeDef graph;
  graph.name = "body";
  graph.type = AttributeType::graph;
  graph.g = body;
  Model model = model_of({{.name = "x", .element_type = k_float, .shape = {}}},
                         {{.name = "loops", .op = "Loop", .domain = {}, .inputs = {trips, "begins", "x"},
                           .outputs = {"y", "all"}, .attributes = {graph}}});
  model.graph.outputs.push_back({.name = "all", .shape = {}});
  model.graph.initializers = {{"begins", b8(begins)},
                              {"two", std::make_shared<Tensor>(Tensor::from<std::int32_t>({}, {2}))}};
  return model;
}

TEST_CASE("a loop whose condition is false at the start has no iteration, with a trip count or without") {
  const TensorMap inputs{{"x", Tensor::from<float>({1}, {3})}};
  const auto backend = make_backend("reference");
  for (const char* trips : {"", "two"})
    for (const bool begins : {false, true}) {
      CAPTURE(trips);
      CAPTURE(begins);
      const Model model = loop_model(trips, begins);
      if (begins && *trips == '\0') {
        CHECK(refusal(model, inputs).find("never ends") != std::string::npos);
        continue;
      }
      const TensorMap out = evaluate(*import_graph(model, inputs).graph, *backend, inputs);
      CHECK(out.at("y").at(0) == (begins ? 12 : 3));
      CHECK(out.at("all").shape() == Shape{begins ? 2 : 0, 1});
    }
}

}  // namespace
}  // namespace unroll::onnx::test_lengths
