// SPDX-License-Identifier: Apache-2.0
// Packed sequences: which loops and products run on the rows that exist, which stay masked, and that numbers agree.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/registry.h"
#include "core/passes/group/row_body.h"
#include "tests/core/small_graphs.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll::test_pack {
namespace {

using testing::f32;

constexpr std::int64_t T = 7, B = 5, I = 3, H = 4;
const std::vector<std::int32_t> k_lengths{3, 7, 0, 3, 1};

// h' = tanh(x W + h U + b), lengths, and what a loss over y and the last state gives to every input.
struct Layer {
  Graph g;
  Value lengths = g.input("lengths", {DType::i32, {B}});
  Value x = g.input("x", f32({T, B, I})), h0 = g.input("h0", f32({B, H}));
  Value w = g.input("w", f32({I, H})), u = g.input("u", f32({H, H})), b = g.input("b", f32({H}));

  ScanResult run(const StepFunction& step, bool reverse = false) {
    const Value states[] = {h0}, sequences[] = {x}, constants[] = {w, u, b};
    return scan(states, sequences, constants, step, {.reverse = reverse, .lengths = lengths, .reset = {}, .steps = -1});
  }
  void output(const ScanResult& r, bool train) {
    g.output("y", r.outputs[0]);
    g.output("last", r.states[0]);
    if (!train) return;
    const Value wrt[] = {x, h0, w, u, b};
    const auto d = differentiate(sum(square(r.outputs[0])) + sum(r.states[0]), wrt);
    for (const Value& value : d) g.output("d" + std::to_string(g.outputs().size()), value);
  }
};

StepResult plain_step(const StepValues& v) {
  const Value h = tanh(matmul(v.sequences[0], v.constants[0]) + matmul(v.states[0], v.constants[1]) + v.constants[2]);
  return {{h}, {h}};
}

std::shared_ptr<const Graph> lowered(const Graph& g, std::vector<std::string> without = {}) {
  const PlanOptions options{.without = std::move(without), .donate = {}, .verify_each = true};
  return lower(g, *make_backend("cpu", {.threads = 1}), options);
}
// How many scans are packed, and how many are not.
std::pair<int, int> scans_of(const Graph& graph) {
  std::pair<int, int> n{0, 0};
  for (const Node& node : graph.nodes())
    if (node.op == Op::scan) ++(scan_layout(node).packed ? n.first : n.second);
  return n;
}

TensorMap numbers_for(const Graph& g) {
  TensorMap values;
  double seed = 0.3;
  for (const NamedValue& input : g.inputs()) {
    Tensor tensor(g.type(input.value));
    if (input.name == "lengths") tensor = Tensor::from(Shape{B}, k_lengths);
    else
      for (float& number : tensor.values<float>()) number = static_cast<float>(std::sin(seed += 1.7));
    values.emplace(input.name, std::move(tensor));
  }
  return values;
}

TEST_CASE("a loop with lengths, its gradient and every product around them run on packed rows") {
  Layer layer;
  layer.output(layer.run(plain_step), true);
  const auto graph = lowered(layer.g);
  CHECK(scans_of(*graph) == std::pair{2, 0});
  for (const Node& node : graph->nodes())
    if (node.op == Op::matmul) CHECK_MESSAGE(node.inputs.size() == 3, "each product outside counts its rows");
  CHECK(scans_of(*lowered(layer.g, {"pack"})) == std::pair{0, 2});
}

TEST_CASE("packed and masked loops agree; rows that ended give exact zeros and keep their states") {
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    Layer layer;
    layer.output(layer.run(plain_step, reverse), true);
    const TensorMap in = numbers_for(layer.g);
    const auto cpu = make_backend("cpu", {.threads = 2});
    const TensorMap packed = evaluate(layer.g, *cpu, in);
    const TensorMap masked = evaluate(layer.g, *cpu, in, {.without = {"pack"}, .donate = {}, .verify_each = false});
    for (const auto& [key, tensor] : masked) {
      const std::string& name = key;  // clang 14 captures no structured binding
      CAPTURE(name);
      // Sums of at most T * B products of numbers below about 10, in another order.
      constexpr double k_bound = 1.2e-7 * 10 * T * B;
      for (std::int64_t i = 0; i < tensor.elements(); ++i)
        CHECK(std::abs(packed.at(name).at(i) - tensor.at(i)) <= k_bound);
    }
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t b = 0; b < B; ++b)
        for (std::int64_t h = 0; h < H && t >= k_lengths[static_cast<std::size_t>(b)]; ++h)
          CHECK(packed.at("y").at((t * B + b) * H + h) == 0);
    for (std::int64_t h = 0; h < H; ++h) CHECK(packed.at("last").at(2 * H + h) == in.at("h0").at(2 * H + h));
  }
}

TEST_CASE("columns of one sequence, [T,1], lie side by side when it is packed") {
  Graph g;
  const Value lengths = g.input("lengths", {DType::i32, {1}});
  const Value states[] = {g.input("h0", f32({1, 1}))}, sequences[] = {g.input("x", f32({T, 1, 1}))};
  const StepFunction step = [](const StepValues& v) -> StepResult {
    const Value h = tanh(v.sequences[0] + v.states[0]);
    return {{h}, {h}};
  };
  const ScanOptions options{.reverse = false, .lengths = lengths, .reset = {}, .steps = -1};
  const ScanResult r = scan(states, sequences, {}, step, options);
  const Value column = reshape(r.outputs[0], {T, 1});
  const Value columns[] = {column, tanh(column)};
  g.output("y", matmul(concat(columns, 1), g.input("w", f32({2, 3}))));
  TensorMap inputs;
  for (const NamedValue& input : g.inputs()) {
    Tensor tensor(g.type(input.value));
    if (input.name == "lengths") tensor = Tensor::from(Shape{1}, std::vector<std::int32_t>{4});
    else
      for (float& number : tensor.values<float>()) number = 0.5f;
    inputs.emplace(input.name, std::move(tensor));
  }
  CHECK(scans_of(*lowered(g)) == std::pair{1, 0});
  const TensorMap wanted = evaluate(g, *make_backend("cpu", {1}), inputs, {.without = {"pack"}});
  const TensorMap got = evaluate(g, *make_backend("cpu", {1}), inputs);
  for (std::int64_t i = 0; i < T * 3; ++i)  // sums of two products below 1
    CHECK(std::abs(got.at("y").at(i) - wanted.at("y").at(i)) <= 4 * 0x1p-24);
}

TEST_CASE("packed results have the same bits for every number of threads") {
  Layer layer;
  layer.output(layer.run(plain_step, true), true);
  const TensorMap in = numbers_for(layer.g);
  const TensorMap one = evaluate(layer.g, *make_backend("cpu", {.threads = 1}), in);
  for (int threads = 2; threads <= 5; ++threads) {
    const TensorMap more = evaluate(layer.g, *make_backend("cpu", {.threads = threads}), in);
    for (const auto& [name, tensor] : one)
      CHECK(std::memcmp(tensor.bytes().data(), more.at(name).bytes().data(), tensor.bytes().size()) == 0);
  }
}

// Wide enough that fused reductions become loops over blocks of several rows, which a step may cut in the middle.
TEST_CASE("fused reductions inside a packed loop stop at the last live row") {
  constexpr std::int64_t steps = 6, batch = 16, width = 64;
  std::vector<std::int32_t> lengths;
  for (int b = 0; b < batch; ++b) lengths.push_back(b * 7 % (steps + 1));
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    Graph g;
    const Value states[] = {g.input("h0", f32({batch, width}))},
                sequences[] = {g.input("x", f32({steps, batch, width}))};
    ScanOptions options;
    options.reverse = reverse;
    options.lengths = g.input("lengths", {DType::i32, {batch}});
    const ScanResult r = scan(states, sequences, {}, [](const StepValues& v) {
      const Value s = v.states[0] + v.sequences[0];
      const Value centered = s - reduce_sum(s, {1}, true) * (1.0 / width);
      const Value h = centered / sqrt(reduce_sum(square(centered), {1}, true) * (1.0 / width) + 0.1);
      return StepResult{{h}, {h}};
    }, options);
    g.output("y", r.outputs[0]);
    g.output("last", r.states[0]);
    const auto d = differentiate(sum(square(r.outputs[0]) * sequences[0]), states);
    g.output("d", d[0]);
    CHECK(scans_of(*lowered(g)).first == 2);  // others are fused reductions
    TensorMap in = numbers_for(g);
    in.at("lengths") = Tensor::from(Shape{batch}, lengths);
    const auto cpu = make_backend("cpu", {.threads = 2});
    const TensorMap packed = evaluate(g, *cpu, in), masked = evaluate(g, *cpu, in, {.without = {"pack"}});
    for (const auto& [name, tensor] : masked)  // row by row the same sums of `width` numbers below about 5
      for (std::int64_t i = 0; i < tensor.elements(); ++i)
        CHECK(std::abs(packed.at(name).at(i) - tensor.at(i)) <= 1.2e-7 * 5 * width * steps);
  }
}

TEST_CASE("rows that depend on each other stay masked") {
  Layer layer;
  layer.output(layer.run([](const StepValues& v) {
    const Value mixed = v.states[0] - broadcast(reduce_sum(v.states[0], {0}, true), v.states[0].shape());
    const Value h = tanh(mixed + matmul(v.sequences[0], v.constants[0]));
    return StepResult{{h}, {h}};
  }), false);
  CHECK(scans_of(*lowered(layer.g)) == std::pair{0, 1});
}

// A mask of one's own: live[t,b] = t < lengths[b] as a sequence.
ScanResult own_mask(Layer& layer, const StepFunction& step) {
  const Value states[] = {layer.h0}, sequences[] = {layer.x, less(iota(layer.g, {T, B}, 0), layer.lengths)};
  const Value constants[] = {layer.w, layer.u, layer.b};
  return scan(states, sequences, constants, step);
}
Value live_of(const StepValues& v) { return reshape(v.sequences[1], Shape{B, 1}); }

TEST_CASE("a mask of one's own is packed like lengths") {
  Layer layer;
  layer.output(own_mask(layer, [](const StepValues& v) {
    const Value h = plain_step(v).states[0];
    return StepResult{{select(live_of(v), h, v.states[0])}, {select(live_of(v), h, scalar_like(h, 0))}};
  }), true);
  CHECK(scans_of(*lowered(layer.g)) == std::pair{2, 0});
}

TEST_CASE("a loop whose ended rows do anything but keep their state stays masked") {
  Layer layer;
  layer.output(own_mask(layer, [](const StepValues& v) {
    const Value h = select(live_of(v), plain_step(v).states[0], v.states[0] * 0.5);
    return StepResult{{h}, {select(live_of(v), h, scalar_like(h, 0))}};
  }), false);
  CHECK(scans_of(*lowered(layer.g)) == std::pair{0, 1});
}

TEST_CASE("a loop whose ended rows are asked for what they hold stays masked") {
  Layer layer;
  layer.output(own_mask(layer, [](const StepValues& v) {
    const Value h = select(live_of(v), plain_step(v).states[0], v.states[0]);
    return StepResult{{h}, {h}};
  }), false);
  CHECK(scans_of(*lowered(layer.g)) == std::pair{0, 1});
}

TEST_CASE("what is known of ended rows goes through ops that keep it") {
  Graph g;
  const Value a = g.input("a", f32({2, 3})), b = g.input("b", f32({2, 3})), off = g.input("off", {DType::b8, {2, 1}});
  using Is = EndedRow::Is;
  const auto after = [&](Value y, std::vector<EndedRow> operands) { return ended_row(g, y.node(), operands); };
  const EndedRow state{Is::state, 1}, zero{Is::zero}, anything{Is::anything};
  CHECK(after(select(off, a, b), {{Is::off}, anything, state}) == state);
  CHECK(after(select(off, a, b), {anything, state, zero}) == anything);
  CHECK(after(a + b, {zero, state}) == state);
  CHECK(after(a + b, {state, state}) == anything);
  CHECK(after(a * b, {anything, zero}) == zero);
  CHECK(after(tanh(a), {zero}) == zero);
  CHECK(after(exp(a), {zero}) == anything);
  CHECK(after(slice(a, 1, 0, 2), {state}) == anything);
}

}  // namespace
}  // namespace unroll::test_pack
