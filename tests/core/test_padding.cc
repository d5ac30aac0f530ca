// SPDX-License-Identifier: Apache-2.0
// Whatever stands behind the end of a row, in x or in the gradient of y, changes no result: loops that are packed, that
// take their lengths again or stay masked, on each backend of this machine.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/each_backend.h"
#include "tests/support/gradient_outputs.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"

namespace unroll::test_padding {
namespace {

constexpr std::int64_t B = 6, I = 3, H = 4;
const std::vector<std::int32_t> k_lengths{3, 7, 0, 9, 1, -2};  // computed: more than T is T, less than 0 is 0

// Cells whose text reads x in different ways. The state of `window` does not depend on states, so its product is
// computed for all steps at once.
const std::vector<TextCell> k_cells{
    {.name = "window", .states = {"h"}, .step = "h' = tanh(affine(x))"},
    {.name = "scaled", .states = {"h"}, .step = "g = sigmoid(affine(x, h))\nh' = tanh(g * affine(x)) + 0.5 * h"},
    {.name = "normed", .states = {"h"}, .step = "h' = tanh(layer_norm(affine(x)) + affine(h))"}};

// y, and the gradients of sum(y w) by x and by the parameters, of two layers in both directions; w [T,B,2H] is then the
// gradient of y.
void build_model(Graph& graph, const std::string& cell, std::int64_t steps) {
  Scope scope(graph, true);
  const Value x = graph.input("x", {DType::f32, {steps, B, I}}),
              lengths = graph.input("lengths", {DType::i32, {B}}) + 0.0;
  const RecurrentModelOptions options{
      .cell = cell, .hidden = H, .layers = 2, .bidirectional = true, .cells = k_cells};
  const Value y = recurrent_model(scope, x, options, {}, lengths).y;
  const Value loss = sum(y * graph.input("w", y.type()));
  graph.output("y", y);
  graph.output("d_x", differentiate(loss, std::vector<Value>{x})[0]);
  testing::output_gradients(scope, loss);
}
// A loop of one's own, h' = tanh(U h + W x), whose rows may read each other: y, and the gradients by x, W, and h0.
void build_loop(Graph& graph, bool mixes_rows, std::int64_t steps) {
  const std::vector<Value> wrt{graph.input("h0", {DType::f32, {B, H}}), graph.input("x", {DType::f32, {steps, B, I}}),
                               graph.input("W", {DType::f32, {I, H}}), graph.input("U", {DType::f32, {H, H}})};
  ScanOptions options;
  options.lengths = graph.input("lengths", {DType::i32, {B}}) + 0.0;
  const auto step = [&](const StepValues& v) {
    const Value h = mixes_rows ? v.states[0] - reduce_sum(v.states[0], {0}, true) : v.states[0];
    const Value next = tanh(matmul(h, v.constants[1]) + matmul(v.sequences[0], v.constants[0]));
    return StepResult{{next}, {next}};
  };
  const Value states[] = {wrt[0]}, sequences[] = {wrt[1]}, constants[] = {wrt[2], wrt[3]};
  const Value y = scan(states, sequences, constants, step, options).outputs[0];
  graph.output("y", y);
  const auto gradients = differentiate(sum(y * graph.input("w", y.type())), wrt);
  for (std::size_t i = 0; i < gradients.size(); ++i) graph.output("d" + std::to_string(i), gradients[i]);
}

// x and w are `padding` behind the end of each row.
TensorMap numbers_for(const Graph& graph, double padding) {
  TensorMap values;
  double angle = 0.3;
  for (const NamedValue& input : graph.inputs()) {
    Tensor tensor(graph.type(input.value));
    if (input.name == "lengths") tensor = Tensor::from(Shape{B}, k_lengths);
    else
      for (float& number : tensor.values<float>()) number = static_cast<float>(std::sin(angle += 1.7));
    const std::int64_t n_places = tensor.shape().rank() == 3 ? tensor.shape()[0] * B : 0;
    for (std::int64_t place = 0, width = tensor.shape().elements() / std::max<std::int64_t>(n_places, 1);
         place < n_places; ++place)
      for (std::int64_t i = 0; i < width && place / B >= k_lengths[static_cast<std::size_t>(place % B)]; ++i)
        tensor.set(place * width + i, padding);
    values.emplace(input.name, std::move(tensor));
  }
  return values;
}

// With NaN, infinity and zero as padding.
void check_padding(const Graph& graph, Backend& backend, const PlanOptions& options) {
  Program program(graph, backend, options);
  const TensorMap wanted = program.run(numbers_for(graph, 0));
  for (const double padding : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    CAPTURE(padding);
    for (const auto& result : program.run(numbers_for(graph, padding)))
      CHECK_MESSAGE(std::ranges::equal(result.second.values<float>(), wanted.at(result.first).values<float>()),
                    result.first);
  }
}
// On all backends, with each way to end rows switched off.
void check_padding(const Graph& graph) {
  for (const std::string& name : testing::computing_backends()) {
    CAPTURE(name);
    const auto backend = make_backend(name);
    for (const std::vector<std::string>& without : {std::vector<std::string>{}, {"pack", "restore_lengths"}}) {
      CAPTURE(without.size());
      check_padding(graph, *backend, {.without = without});
    }
  }
}

TEST_CASE("what stands behind the end of a row changes no result of a model") {
  for (const std::string cell : {"rnn", "gru", "lstm", "lnlstm", "mgu", "window", "scaled", "normed"})
    for (const std::int64_t steps : {1, 7}) {
      CAPTURE(cell);
      CAPTURE(steps);
      Graph graph;
      build_model(graph, cell, steps);
      check_padding(graph);
    }
}

TEST_CASE("what stands behind the end of a row changes no result of a loop of one's own, rows that mix included") {
  for (const bool mixes_rows : {false, true})
    for (const std::int64_t steps : {1, 7}) {
      CAPTURE(mixes_rows);
      CAPTURE(steps);
      Graph graph;
      build_loop(graph, mixes_rows, steps);
      check_padding(graph);
    }
}

TEST_CASE("what stands behind the end of a row changes no result of loops over segments") {
  const auto backend = make_backend("cpu");
  for (const std::string cell : {"lstm", "scaled"}) {
    CAPTURE(cell);
    Graph graph;
    build_model(graph, cell, 64);
    const auto whole = plan(graph, *backend, {.without = {"branches"}});
    const PlanOptions options{.memory_limit = planned_bytes(*whole) - 1};
    const auto cut = plan(graph, *backend, options);
    CHECK(std::ranges::count(cut->notes, "checkpoint", &PassNote::pass) > 0);
    check_padding(graph, *backend, options);
  }
}

}  // namespace
}  // namespace unroll::test_padding
