// SPDX-License-Identifier: Apache-2.0
// Streams of ONNX models: the dimension that is time, sizes that parameters determine, and files that compute one step.
#include <doctest/doctest.h>

#include <cmath>

#include "frontends/onnx/stream.h"
#include "tests/onnx/small_models.h"
#include "tests/support/refusal.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"

namespace unroll::onnx {
namespace {

using testing::refusal;

ValueDef floats(const std::string& name, const std::vector<std::string>& dims) {
  ValueDef value{.name = name, .element_type = k_float, .shape = std::vector<Dimension>{}};
  for (const std::string& text : dims) {
    const bool is_number = text.find_first_not_of("0123456789") == std::string::npos;
    value.shape->push_back(is_number ? Dimension{std::stoll(text), ""} : Dimension{-1, text});
  }
  return value;
}

NodeDef node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
             const std::vector<AttributeDef>& attributes = {}) {
  return {.name = outputs[0], .op = op, .domain = {}, .inputs = inputs, .outputs = outputs, .attributes = attributes};
}

AttributeDef integers(const std::string& name, const std::vector<std::int64_t>& values) {
  AttributeDef a;
  a.name = name;
  a.type = AttributeType::integers;
  a.ints = values;
  return a;
}

Tensor drawn(const Shape& shape) {
  const ParameterSpec spec{"w", {DType::f32, shape}, Initializer::uniform(0.5)};
  return std::move(initialize(std::span(&spec, 1), 1).at("w"));
}

std::shared_ptr<Model> model_of(GraphDef graph) {
  return std::make_shared<Model>(Model{.file = "test.onnx", .ir_version = 8, .opset = 17, .producer = {},
                                       .graph = std::move(graph), .functions = {}, .metadata = {}});
}

// x [frames, features] -> product [frames, 4] -> loop -> y; the features follow from the weight [6, 4].
std::shared_ptr<Model> recurrent(const std::string& direction = "forward") {
  GraphDef graph;
  graph.inputs = {floats("x", {"frames", "features"}), floats("h", {"1", "1", "3"})};
  graph.outputs = {floats("y", {}), floats("last", {})};
  const auto weights = [&](const std::string& name, const Shape& shape) {
    graph.initializers.emplace(name, std::make_shared<Tensor>(drawn(shape)));
  };
  weights("A", {6, 4}), weights("W", {1, 3, 4}), weights("R", {1, 3, 3});
  graph.initializers.emplace("one", std::make_shared<Tensor>(Tensor::from<std::int32_t>({1}, {1})));
  AttributeDef way = attribute("direction", direction);
  graph.nodes = {node("MatMul", {"x", "A"}, {"product"}), node("Unsqueeze", {"product", "one"}, {"rows"}),
                 node("RNN", {"rows", "W", "R", "", "", "h"}, {"y", "last"}, {attribute("hidden_size", 3), way})};
  return model_of(std::move(graph));
}

TEST_CASE("the dimension with states is time, the weights determine the features, and the state starts at zero") {
  const ModelStream found = stream_of(recurrent(), {});
  CHECK(found.time == "frames");
  CHECK(found.sizes == FreeSizes{{"features", 6}});
  CHECK(found.values == std::map<std::string, double>{{"h", 0}});
  CHECK(found.carried.empty());
  const BlockStream blocks = block_stream(found.whole);
  CHECK(blocks.output == "y");
  CHECK(blocks.others == std::vector<std::string>{"last"});

  const auto backend = make_backend("cpu");
  Stream stream(*backend, graph_stream(found.whole), {});
  const Tensor x = drawn({5, 6});
  const TensorMap inputs{{"x", x}, {"h", Tensor(DType::f32, {1, 1, 3})}};
  const Tensor whole = evaluate(*import_graph(*recurrent(), inputs).graph, *backend, inputs).at("y");
  for (std::size_t t = 0; t < 5; ++t) {
    std::vector<float> y(3);
    REQUIRE(stream.step(x.values<float>().subspan(t * 6, 6), y));
    for (std::size_t k = 0; k < 3; ++k) CHECK(y[k] == doctest::Approx(whole.at(3 * t + k)).epsilon(1e-5));
  }
}

TEST_CASE("a value of an input that is no sequence can be given") {
  StreamChoices choices;
  choices.values = {{"h", 0.5}};
  choices.blocks.output = "y";
  CHECK(stream_of(recurrent(), choices).values == choices.values);
  choices.values = {{"g", 0.5}};
  CHECK(refusal([&] { stream_of(recurrent(), choices); }).find("no input 'g'") != std::string::npos);
  CHECK(refusal([&] { stream_of(recurrent(), {.time = "T", .sizes = {}, .values = {}, .blocks = {}}); })
            .find("no free dimension 'T'. Free dimensions: frames, features") != std::string::npos);
}

TEST_CASE("a loop from the end of the sequence is refused with the reason for each dimension") {
  const std::string refused = refusal([] { stream_of(recurrent("reverse"), {}); });
  CAPTURE(refused);
  CHECK(refused.find("no dimension of the inputs can be streamed:\n  frames: ") != std::string::npos);
  CHECK(refused.find("is a loop from the end to the start") != std::string::npos);
}

// One step: next = tanh(x + state + bias), y = next * count.
std::shared_ptr<Model> step_model() {
  GraphDef graph;
  graph.inputs = {floats("x", {"1", "2"}), floats("state", {"1", "2"}), floats("count", {"1"})};
  graph.inputs[2].element_type = k_int64;
  graph.outputs = {floats("y", {}), floats("next", {})};
  graph.nodes = {node("Add", {"x", "state"}, {"sum"}), node("Tanh", {"sum"}, {"next"}),
                 node("Cast", {"count"}, {"number"}, {attribute("to", 1)}), node("Flatten", {"next"}, {"flat"}),
                 node("MatMul", {"flat", "M"}, {"product"}), node("Mul", {"product", "number"}, {"y"})};
  graph.initializers.emplace("M", std::make_shared<Tensor>(Tensor::from<float>({2, 1}, {1, 2})));
  return model_of(std::move(graph));
}

TEST_CASE("a file that computes one step becomes a loop that carries its states") {
  const std::string refused = refusal([] { stream_of(step_model(), {}); });
  CHECK(refused.find("input 'count' i32[1] needs a value. Give it with --value count=NUMBER") != std::string::npos);
  StreamChoices choices;
  choices.values = {{"count", 2}};
  const ModelStream found = stream_of(step_model(), choices);
  CHECK(found.time.empty());
  CHECK(found.carried == std::map<std::string, std::string>{{"state", "next"}});
  const auto backend = make_backend("cpu");
  Stream stream(*backend, graph_stream(found.whole), {});
  float a = 0, b = 0;
  for (const float x : {0.5F, -1.0F, 0.25F}) {
    const float in[] = {x, x + 1};
    float y = 0;
    REQUIRE(stream.step(in, {&y, 1}));
    a = std::tanh(a + in[0]), b = std::tanh(b + in[1]);
    CHECK(y == doctest::Approx(2 * (a + 2 * b)).epsilon(1e-6));
  }
}

TEST_CASE("a convolution streams with the look-ahead that is allowed") {
  GraphDef graph;
  graph.inputs = {floats("x", {"batch", "3", "time"})};
  graph.outputs = {floats("y", {})};
  graph.initializers.emplace("W", std::make_shared<Tensor>(drawn({4, 3, 3})));
  graph.nodes = {node("Conv", {"x", "W"}, {"y"}, {integers("pads", {1, 1})})};
  const auto model = model_of(graph);
  StreamChoices choices;
  const ModelStream found = stream_of(model, choices);
  CHECK(found.time == "time");
  CHECK(found.sizes == FreeSizes{{"batch", 1}});
  CHECK(refusal([&] { block_stream(found.whole); }).find("output 'y' looks ahead 1 steps") != std::string::npos);
  CHECK(block_stream(found.whole, {.look_ahead = 1}).delay == 1);

  graph.nodes = {node("Tanh", {"x"}, {"y"})};  // nothing is carried along either axis
  CHECK(refusal([&] { stream_of(model_of(graph), {}); }).find("can be time: batch, time") != std::string::npos);
  choices.time = "time";
  CHECK(stream_of(model_of(graph), choices).time == "time");
}

}  // namespace
}  // namespace unroll::onnx
