// SPDX-License-Identifier: Apache-2.0
// Streams of graphs of whole sequences, on all backends of the test: a convolution with a stride, one that looks ahead,
// a gru with an initial state. The random networks are in tests/core/test_block_stream.cc.
#include <doctest/doctest.h>

#include <cmath>

#include "unroll/ir/ops.h"
#include "unroll/model/stream.h"
#include "unroll/nn/scope.h"
#include "unroll/passes/run.h"

namespace unroll::test_graph_stream {
namespace {

constexpr std::int64_t I = 3, H = 5;

Tensor drawn(const char* name, const Shape& shape) {
  const ParameterSpec spec{name, {DType::f32, shape}, Initializer::uniform(0.5)};
  return std::move(initialize(std::span(&spec, 1), 3).at(name));
}

// [1,T,I] to [1,T/2,H]
std::shared_ptr<const Graph> network(std::int64_t T) {
  auto graph = std::make_shared<Graph>();
  const auto parameter = [&](const char* name, const Shape& shape) { return constant(*graph, drawn(name, shape)); };
  Value x = graph->input("signal", {DType::f32, {1, T, I}});
  x = conv(x, parameter("a", {4, 4, I}), {}, {.axes = {1}, .stride = {2}, .low = {2}});
  x = conv(relu(x), parameter("b", {4, 3, 4}), parameter("c", {4}), {.axes = {1}, .low = {1}, .high = {1}});
  RecurrentInputs in;
  in.x = transpose(x, {1, 0, 2});
  in.h0 = parameter("h", {1, 1, H});
  in.parameters = {parameter("w", {3 * H, 4}), parameter("u", {3 * H, H}), parameter("d", {3 * H}),
                   parameter("e", {3 * H})};
  const RecurrentResult result = recurrent(Op::gru, in, {.hidden = H});
  graph->output("mean", mean(x));
  graph->output("y", transpose(result.y, {1, 0, 2}));
  return graph;
}

struct Fixture {
  std::unique_ptr<Backend> backend = make_backend("cpu", {.threads = 2});
  StreamModel model;
  std::int64_t T = 23;
  Tensor x = drawn("x", {1, T, I});
  std::vector<float> wanted;

  Fixture() {
    model = graph_stream(network, {.look_ahead = 2});
    const Tensor y = evaluate(*network(T), *backend, {{"signal", x}}).at("y");
    wanted.assign(y.values<float>().begin(), y.values<float>().end());
  }
  std::span<const float> steps(std::int64_t t, std::int64_t n) const {
    return x.values<float>().subspan(static_cast<std::size_t>(t * I), static_cast<std::size_t>(n * I));
  }
  // The whole sequence, `chunk` steps at a time.
  std::vector<float> run(Stream& stream, std::int64_t chunk) const {
    std::vector<float> all;
    std::int64_t t = 0;
    for (; t + chunk <= T; t += chunk) {
      std::vector<float> y(static_cast<std::size_t>(chunk / stream.block() * stream.rows() * stream.outputs()));
      REQUIRE(stream.step(steps(t, chunk), y));
      all.insert(all.end(), y.begin(), y.end());
    }
    for (; t + stream.block() <= T; t += stream.block()) {
      std::vector<float> y(static_cast<std::size_t>(stream.rows() * stream.outputs()));
      REQUIRE(stream.step(steps(t, stream.block()), y));
      all.insert(all.end(), y.begin(), y.end());
    }
    all.erase(all.begin(), all.begin() + stream.delay() * stream.outputs());
    REQUIRE(stream.finish(steps(t, T - t), all));
    return all;
  }
  void check_near(const std::vector<float>& got) const {
    REQUIRE(got.size() == wanted.size());
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(wanted[k]).epsilon(1e-5));
  }
};

TEST_CASE_FIXTURE(Fixture, "a stream of a graph gives the outputs of the whole sequence, and again after finish") {
  Stream stream(*backend, model, {}, {.chunk = 6});
  CHECK(stream.inputs() == I);
  CHECK(stream.outputs() == H);
  CHECK(stream.block() == 2);
  CHECK(stream.rows() == 1);
  CHECK(stream.delay() == 1);
  CHECK(stream.look_ahead() == 2);
  check_near(run(stream, 2));
  check_near(run(stream, 6));
}

TEST_CASE_FIXTURE(Fixture, "a saved stream continues, and finishes, in another one") {
  Stream first(*backend, model, {}), second(*backend, model, {});
  std::vector<float> y(H), rest;
  for (std::int64_t t = 0; t < 20; t += 2) REQUIRE(first.step(steps(t, 2), y));
  second.restore(first.save());
  Stream third = first.fork();
  for (Stream* stream : {&first, &second, &third}) {
    rest.clear();
    REQUIRE(stream->step(steps(20, 2), y));
    REQUIRE(stream->finish(steps(22, 1), rest));
    std::vector<float> end(y);
    end.insert(end.end(), rest.begin(), rest.end());
    REQUIRE(end.size() == 2 * H);
    for (std::size_t k = 0; k < end.size(); ++k)
      CHECK(end[k] == doctest::Approx(wanted[wanted.size() - end.size() + k]).epsilon(1e-5));
  }
}

TEST_CASE_FIXTURE(Fixture, "sizes, lanes and parameters that a graph does not have are refused") {
  Stream stream(*backend, model, {});
  std::vector<float> y(H), rest;
  CHECK_FALSE(stream.step(steps(0, 1), y));
  CHECK_FALSE(stream.finish(steps(0, 2), rest));
  CHECK_FALSE(stream.reset(1));
  CHECK_THROWS_WITH_AS(Stream(*backend, model, {}, {.lanes = 2}), doctest::Contains("has one lane"), Error);
  CHECK_THROWS_WITH_AS(Stream(*backend, model, {}, {.chunk = 3}), doctest::Contains("multiple of 2"), Error);
  CHECK_THROWS_WITH_AS(Stream(*backend, model, {{"w", x}}), doctest::Contains("w"), Error);
  model.blocks.look_ahead = 0;
  CHECK_THROWS_WITH_AS(Stream(*backend, model, {}), doctest::Contains("looks ahead 2 steps"), Error);
}

}  // namespace
}  // namespace unroll::test_graph_stream
