// SPDX-License-Identifier: Apache-2.0
// A stream against the same model over whole sequences. T steps, B lanes, I inputs.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace test_stream {

using namespace unroll;

namespace {

constexpr std::int64_t T = 12, B = 3, I = 5;

struct Whole {
  TensorMap parameters;
  Tensor x{DType::f32, {T, B, I}};
  Tensor y;

  std::span<const float> inputs(std::int64_t t, std::int64_t steps = 1) const {
    return x.values<float>().subspan(static_cast<std::size_t>(t * B * I), static_cast<std::size_t>(steps * B * I));
  }
  std::vector<float> outputs(std::int64_t t, std::int64_t steps = 1) const {
    const auto width = static_cast<std::size_t>(y.elements() / T);
    const float* const from = y.values<float>().data() + static_cast<std::size_t>(t) * width;
    return {from, from + static_cast<std::size_t>(steps) * width};
  }
};

// The model over T steps in one run, from zero states.
Whole run_whole(const StreamModel& model, Backend& backend) {
  Whole w;
  Graph graph;
  Scope scope(graph, false);
  const Value x = graph.input("x", w.x.type());
  std::vector<Value> states;
  for (const Shape& shape : model.state_shapes(B)) states.push_back(filled(graph, {DType::f32, shape}, 0));
  graph.output("y", model.build(scope, x, states).y);
  w.parameters = initialize(scope.parameters(), 7);
  for (std::int64_t i = 0; i < w.x.elements(); ++i) w.x.set(i, std::sin(static_cast<double>(i * i + 1)));
  TensorMap inputs = w.parameters;
  inputs.emplace("x", w.x);
  w.y = evaluate(graph, backend, inputs).at("y");
  return w;
}

RecurrentModelOptions two_layers(const std::string& cell) { return {.cell = cell, .hidden = 9, .layers = 2}; }

std::vector<float> one_step(Stream& stream, std::span<const float> x) {
  const auto steps = static_cast<std::int64_t>(x.size()) / stream.lanes() / stream.inputs();
  std::vector<float> y(static_cast<std::size_t>(steps * stream.lanes() * stream.outputs()));
  REQUIRE(stream.step(x, y));
  return y;
}

void check_follows(Stream& stream, const Whole& whole, std::int64_t steps_per_call) {
  for (std::int64_t t = 0; t < T; t += steps_per_call)
    CHECK(one_step(stream, whole.inputs(t, steps_per_call)) == whole.outputs(t, steps_per_call));
}

ErrorKind kind_of_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.kind();
  }
  FAIL("nothing was thrown");
  return ErrorKind::internal;
}

struct Fixture {
  std::unique_ptr<Backend> backend = make_backend("cpu", {.threads = 2});
  StreamModel model = recurrent_stream(two_layers("lstm"), I);
  Whole whole = run_whole(model, *backend);
  Stream stream{*backend, model, whole.parameters, {.lanes = B}};
};

}  // namespace

TEST_CASE("a stream gives the bits of the whole sequence, for every cell, step by step and in chunks") {
  std::vector<std::string> cells = cell_names();
  for (const char* name : {"rnn", "gru", "lstm"}) cells.emplace_back(name);
  const auto backend = make_backend("cpu", {.threads = 2});
  for (const std::string& cell : cells) {
    CAPTURE(cell);
    const StreamModel model = recurrent_stream(two_layers(cell), I);
    const Whole whole = run_whole(model, *backend);
    Stream stream(*backend, model, whole.parameters, {.lanes = B, .chunk = 4});
    check_follows(stream, whole, 4);
    CHECK(stream.reset());
    check_follows(stream, whole, 1);
    Stream shared(*backend, model, whole.parameters, {.lanes = B, .one_thread = false});
    check_follows(shared, whole, 1);
  }
}

TEST_CASE("a stream runs options of the built-in cells, and a user's cell") {
  const auto backend = make_backend("cpu", {.threads = 1});
  RecurrentModelOptions projected = two_layers("lstm");
  projected.projection = 4;
  projected.peephole = true;
  RecurrentModelOptions before = two_layers("gru");
  before.reset_after = false;
  const CellFactory leaky = [](std::int64_t hidden) {
    return Cell{{hidden}, [hidden](Step& s) {
                  const Value drive = s.affine("drive", std::vector{s.x(), s.state(0)}, hidden);
                  return CellStep{{s.state(0) * 0.9 + tanh(drive) * 0.1}, {}};
                }};
  };
  for (const StreamModel& model : {recurrent_stream(projected, I), recurrent_stream(before, I),
                                   cell_stream(leaky, {.hidden = 6, .layers = 3}, I)}) {
    const Whole whole = run_whole(model, *backend);
    Stream stream(*backend, model, whole.parameters, {.lanes = B});
    check_follows(stream, whole, 1);
  }
}

TEST_CASE("a stream runs on the reference backend") {
  const auto backend = make_backend("reference");
  const StreamModel model = recurrent_stream(two_layers("gru"), I);
  const Whole whole = run_whole(model, *backend);
  Stream stream(*backend, model, whole.parameters, {.lanes = B, .chunk = 3});
  check_follows(stream, whole, 3);
}

TEST_CASE_FIXTURE(Fixture, "a stream goes back to a saved state") {
  for (std::int64_t t = 0; t < 5; ++t) one_step(stream, whole.inputs(t));
  const TensorMap saved = stream.save();
  CHECK(saved.size() == 2);
  CHECK(saved.at("state.0").shape() == Shape{2, B, 9});
  for (std::int64_t t = 5; t < 9; ++t) one_step(stream, whole.inputs(t));
  stream.restore(saved);
  CHECK(one_step(stream, whole.inputs(5)) == whole.outputs(5));
  Stream other(*backend, model, whole.parameters, {.lanes = B});
  other.restore(saved);
  CHECK(one_step(other, whole.inputs(5)) == whole.outputs(5));
}

TEST_CASE_FIXTURE(Fixture, "a fork goes its own way and leaves the stream alone") {
  for (std::int64_t t = 0; t < 3; ++t) one_step(stream, whole.inputs(t));
  Stream fork = stream.fork();
  one_step(fork, whole.inputs(8));
  one_step(fork, whole.inputs(9));
  CHECK(one_step(stream, whole.inputs(3)) == whole.outputs(3));
  Stream late = stream.fork();
  CHECK(one_step(late, whole.inputs(4)) == whole.outputs(4));
}

TEST_CASE_FIXTURE(Fixture, "resetting a lane starts that lane again and no other") {
  for (std::int64_t t = 0; t < 4; ++t) one_step(stream, whole.inputs(t));
  CHECK(stream.reset(1));
  const std::vector<float> y = one_step(stream, whole.inputs(4)), on = whole.outputs(4);
  const std::size_t O = 9;
  CHECK(std::vector(y.begin(), y.begin() + O) == std::vector(on.begin(), on.begin() + O));
  CHECK(std::vector(y.end() - O, y.end()) == std::vector(on.end() - O, on.end()));
  Stream fresh(*backend, model, whole.parameters, {.lanes = B});
  const std::vector<float> first = one_step(fresh, whole.inputs(4));
  CHECK(std::vector(y.begin() + O, y.begin() + 2 * O) == std::vector(first.begin() + O, first.begin() + 2 * O));
  CHECK_FALSE(stream.reset(B));
  CHECK_FALSE(stream.reset(-1));
}

TEST_CASE_FIXTURE(Fixture, "a call of the wrong size does nothing") {
  std::vector<float> y(B * 9);
  CHECK_FALSE(stream.step(whole.inputs(0, 2), y));
  CHECK_FALSE(stream.step(whole.inputs(0), std::span(y).first(4)));
  CHECK_FALSE(stream.step(std::vector<std::int32_t>(B * I), y));
  CHECK_FALSE(stream.step(std::span<const float>{}, {}));
  CHECK(one_step(stream, whole.inputs(0)) == whole.outputs(0));
}

TEST_CASE("a stream refuses ids that its table does not have, and goes on") {
  const StreamModel model{
      .input = DType::i32,
      .state_shapes = [](std::int64_t) { return std::vector<Shape>(); },
      .build = [](Scope& scope, Value x, std::span<const Value>) {
        return CellLayerResult{embedding_layer(scope, x, 5, 2), {}};
      }};
  const auto backend = make_backend("cpu");
  const Tensor table = Tensor::from<float>({5, 2}, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  Stream stream(*backend, model, {{"weight", table}}, {.lanes = 2});
  CHECK(stream.ids() == 5);
  std::vector<float> y(4);
  for (const std::int32_t bad : {-1, 5, 2147483647})
    CHECK_FALSE(stream.step(std::vector<std::int32_t>{4, bad}, y));
  CHECK(y == std::vector<float>(4));
  REQUIRE(stream.step(std::vector<std::int32_t>{4, 0}, y));
  CHECK(y == std::vector<float>{8, 9, 0, 1});
}

TEST_CASE_FIXTURE(Fixture, "what is wrong with a stream is said when it is made") {
  const auto made_with = [&](const TensorMap& parameters, const StreamOptions& options) {
    return kind_of_error([&] { Stream s(*backend, model, parameters, options); });
  };
  RecurrentModelOptions both = two_layers("lstm");
  both.bidirectional = true;
  CHECK(kind_of_error([&] { recurrent_stream(both, I); }) == ErrorKind::unsupported);
  CHECK(made_with(whole.parameters, {.lanes = 0}) == ErrorKind::usage);
  TensorMap changed = whole.parameters;
  changed.erase("bias_ih_l1");
  CHECK(made_with(changed, {}) == ErrorKind::input_file);
  changed["bias_ih_l1"] = Tensor(DType::f32, {7});
  CHECK(made_with(changed, {}) == ErrorKind::input_file);
  changed = whole.parameters;
  changed["bias_ih_l9"] = Tensor(DType::f32, {7});
  CHECK(made_with(changed, {}) == ErrorKind::input_file);
  const auto reference = make_backend("reference");
  CHECK(kind_of_error([&] { Stream(*reference, model, whole.parameters, {.weights = WeightFormat::int8}); }) ==
        ErrorKind::unsupported);
  CHECK(kind_of_error([&] { stream.restore({}); }) == ErrorKind::usage);
  TensorMap states = stream.save();
  states["state.0"] = Tensor(DType::f32, {2, B, 8});
  CHECK(kind_of_error([&] { stream.restore(states); }) == ErrorKind::shape);
}

// The largest distance of a stream with weights in `format` from the f32 one, over T steps of one layer of H.
double distance_of(WeightFormat format) {
  const auto backend = make_backend("cpu", {.threads = 1});
  const StreamModel model = recurrent_stream({.cell = "gru", .hidden = 96}, I);
  const Whole whole = run_whole(model, *backend);
  Stream stream(*backend, model, whole.parameters, {.lanes = B, .weights = format});
  double most = 0;
  for (std::int64_t t = 0; t < T; ++t) {
    const std::vector<float> y = one_step(stream, whole.inputs(t)), wanted = whole.outputs(t);
    for (std::size_t i = 0; i < y.size(); ++i) most = std::max(most, static_cast<double>(std::abs(y[i] - wanted[i])));
  }
  return most;
}

TEST_CASE("weight formats are found by name, and a wrong name is answered with the nearest") {
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8})
    CHECK(weight_format_from_name(weight_format_name(format)) == format);
  CHECK_THROWS_WITH_AS(weight_format_from_name("int7"), doctest::Contains("Did you mean 'int8'?"), Error);
}

TEST_CASE("weights in fewer bits change the outputs a little and no more") {
  // Each of the three pre-activations moves by at most K |h| e, e the error of a weight and |w| <= 1/sqrt(H); the
  // update gate averages, so that an output moves by at most the sum of the three times 1/4 + 1/4 + 1.
  const double H = 96, largest = 1 / std::sqrt(H);
  const double bf16 = distance_of(WeightFormat::bf16), int8 = distance_of(WeightFormat::int8);
  CHECK(bf16 > 0);
  CHECK(bf16 < 1.5 * H * largest / 256);
  CHECK(int8 > 0);
  CHECK(int8 < 1.5 * H * largest / 254);
}

TEST_CASE("a forecast of changes is the last value and the forecast that a model of changes gives") {
  const auto backend = make_backend("cpu", {.threads = 1});
  Metadata metadata{{"task", "forecast"},       {"scaler.mean", "2.5"},    {"scaler.deviation", "4"},
                    {"difference", "0"},        {"model.cell", "gru"},     {"model.hidden", "5"},
                    {"model.layers", "1"},      {"model.bias", "1"},       {"model.bidirectional", "0"},
                    {"model.dropout", "0"},     {"model.projection", "0"}, {"model.nonlinearity", "tanh"},
                    {"model.reset_after", "1"}, {"model.peephole", "0"}};
  const StreamModel plain = task_stream(metadata);
  metadata["difference"] = "1";
  Graph graph;
  Scope scope(graph, false);
  plain.build(scope, graph.input("x", {DType::f32, {1, 1, 1}}),
              std::vector{graph.input("state", {DType::f32, plain.state_shapes(1)[0]})});
  const TensorMap parameters = initialize(scope.parameters(), 4);
  Stream of_changes(*backend, plain, parameters);
  Stream of_values(*backend, task_stream(metadata), parameters, {.chunk = 3});
  const std::vector<float> values{300, 310, 305.5f, 290, 291, 250};
  std::vector<float> wanted, got;
  float last = values[0];
  for (const float value : values) {
    const float change = value - last;
    wanted.push_back(value + one_step(of_changes, {&change, 1})[0]);
    last = value;
  }
  for (std::size_t t : {0, 3})
    for (const float y : one_step(of_values, std::span(values).subspan(t, 3))) got.push_back(y);
  CHECK(got == wanted);
  of_values.reset();
  CHECK(one_step(of_values, std::span(values).first(1)) == std::vector(wanted.begin(), wanted.begin() + 1));

  // Two values ahead from equal weights differ by their units alone.
  metadata["horizon"] = "2";
  metadata["scaler.1.mean"] = "-1";
  metadata["scaler.1.deviation"] = "8";
  TensorMap twice = parameters;
  for (const auto& [name, shape] : {std::pair{"output.weight", Shape{2, 5}}, std::pair{"output.bias", Shape{2}}}) {
    Tensor both(DType::f32, shape);
    const Tensor& one = parameters.at(name);
    for (std::int64_t i = 0; i < both.elements(); ++i) both.set(i, one.at(i % one.elements()));
    twice.insert_or_assign(name, both);
  }
  Stream of_two(*backend, task_stream(metadata), twice);
  const std::vector<float> ahead = one_step(of_two, std::span(values).first(1));
  REQUIRE(ahead.size() == 2);
  CHECK(ahead[0] == doctest::Approx(wanted[0]));
  CHECK((ahead[1] - values[0] + 1) / 8 == doctest::Approx((ahead[0] - values[0] - 2.5) / 4).epsilon(1e-4));
  metadata["horizon"] = "0";
  CHECK(kind_of_error([&] { task_stream(metadata); }) == ErrorKind::input_file);
  metadata["horizon"] = "3";
  CHECK(kind_of_error([&] { task_stream(metadata); }) == ErrorKind::input_file);  // no scaler.2
  metadata["task"] = "chess";
  CHECK(kind_of_error([&] { task_stream(metadata); }) == ErrorKind::input_file);
}

}  // namespace test_stream
