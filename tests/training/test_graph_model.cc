// SPDX-License-Identifier: Apache-2.0
// A graph stored as text for any number of steps: the text, inference, streams and damaged metadata. T steps.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/refusal.h"
#include "unroll/ir/ops.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/tasks/graph.h"
#include "unroll/tasks/inference.h"
#include "unroll/tasks/tasks.h"

namespace unroll::test_graph_model {
namespace {

using testing::refusal;

// Pairs of steps, a product with "w", a running sum; the mean over time is a second output.
std::shared_ptr<Graph> network(std::int64_t T) {
  auto graph = std::make_shared<Graph>();
  const Value x = graph->input("x", {DType::f32, {T, 1, 2}}), w = graph->input("w", {DType::f32, {3, 4}});
  const Value pairs = reshape(x, {T / 2, 1, 4});
  graph->output("y", cumsum(tanh(linear(pairs, w)) + filled(*graph, {DType::f32, {T / 2, 1, 3}}, 0.5), 0));
  graph->output("mean of <T>", mean(x, 0));
  return graph;
}

std::string text() { return print_for_lengths(*network(4), 4, *network(12), 12); }
Metadata metadata() { return graph_metadata({text(), "x", "", 0}); }
const TensorMap k_parameters{{"w", Tensor::from<float>({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4})}};

TEST_CASE("the text of two lengths gives the graph of any other one") {
  CAPTURE(text());
  CHECK(text().find("f32[<T/2>,1,4]") != std::string::npos);
  CHECK(text().find("<1/T>") != std::string::npos);
  CHECK(text().find("\"mean of <T>\"") != std::string::npos);
  for (const std::int64_t T : {2, 4, 10, 1000})
    CHECK(print_graph(*parse_for_length(text(), T)) == print_graph(*network(T)));
  CHECK(print_graph(*parse_for_length(print_graph(*network(6)), 99)) == print_graph(*network(6)));
}

TEST_CASE("a number of steps without a whole size, and text that cannot be read, are refused") {
  CHECK(refusal([] { parse_for_length(text(), 7); }).find("must be a multiple of 2; got 7") != std::string::npos);
  CHECK(refusal([] { parse_for_length(text(), 0); }).find("must be 1 to 2^40; got 0") != std::string::npos);
  const char* const sizes[] = {"<>", "<T", "<2T>", "<T/0>", "<T/-2>", "<9223372036854775808*T>", "<4294967296*T>",
                               "<T+>"};
  for (const char* size : sizes) {
    const std::string damaged = "graph { %0 = input(){name=\"x\"} : f32[" + std::string(size) + "] }";
    CHECK(refusal([&] { parse_for_length(damaged, 1 << 20); }) != "nothing was refused");
  }
}

TEST_CASE("graphs that differ by more than sizes have no common text") {
  const auto other = [](std::int64_t T, double factor, bool more) {
    auto graph = std::make_shared<Graph>();
    Value x = graph->input("x", {DType::f32, {T}}) * factor;
    graph->output("y", more ? tanh(x) : x);
    return graph;
  };
  const auto refused = [&](std::int64_t T, const std::shared_ptr<Graph>& one, std::int64_t T_two,
                           const std::shared_ptr<Graph>& two, const char* text) {
    CHECK(refusal([&] { print_for_lengths(*one, T, *two, T_two); }).find(text) != std::string::npos);
  };
  refused(4, other(4, 0.5, false), 8, other(8, 0.75, false), "more than a size");
  refused(4, other(4, 0.5, false), 8, other(8, 0.5, true), "number of steps");
  refused(3, other(3, 0.5, false), 5, other(4, 0.5, false), "evenly");
}

TEST_CASE("a stored graph runs on whole sequences and as a stream") {
  const Inference inference = task_inference(metadata());
  CHECK(inference.inputs[0].text() == "f32[T,1,2]");
  CHECK(inference.outputs[0].text() == "f32[N0,1,3]");
  CHECK(inference.outputs[1].text() == "f32[1,2]");
  const auto backend = make_backend("cpu");
  Tensor x(DType::f32, {6, 1, 2});
  for (std::int64_t k = 0; k < x.elements(); ++k) x.set(k, 0.1 * static_cast<double>(k));
  const Tensor y = Model(*backend, inference.network, k_parameters).run({{"x", x}}).at("y");
  TensorMap inputs = k_parameters;
  inputs.emplace("x", x);
  const Tensor wanted = evaluate(*network(6), *backend, inputs).at("y");
  CHECK(std::ranges::equal(y.bytes(), wanted.bytes()));

  Stream stream(*backend, task_stream(metadata()), k_parameters);
  for (std::size_t block = 0; block < 3; ++block) {
    std::vector<float> rows(3);
    REQUIRE(stream.step(x.values<float>().subspan(4 * block, 4), rows));
    for (std::size_t k = 0; k < 3; ++k) CHECK(rows[k] == doctest::Approx(wanted.at(3 * block + k)).epsilon(1e-5));
  }
}

TEST_CASE("damaged metadata is an error of the file") {
  for (const char* key : {"graph", "input", "output", "look_ahead"}) {
    Metadata damaged = metadata();
    damaged.erase(key);
    CHECK_THROWS_AS(task_inference(damaged), Error);
    damaged[key] = "nonsense";
    const auto backend = make_backend("cpu");
    CHECK_THROWS_AS(Stream(*backend, task_stream(damaged), k_parameters), Error);
  }
}

}  // namespace
}  // namespace unroll::test_graph_model
