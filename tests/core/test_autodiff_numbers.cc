// SPDX-License-Identifier: Apache-2.0
// Gradients against differences in f64: scans of every kind, second order, ties, shapes with zeros.
#include <doctest/doctest.h>

#include "core/autodiff/lower_masks.h"
#include "tests/core/autodiff_numbers.h"
#include "tests/support/backends.h"
#include "unroll/autodiff/autodiff.h"

namespace test_autodiff_numbers {

using namespace unroll;
using unroll::testing::LossCase;
using unroll::testing::first_order_error;
using unroll::testing::run_truth;
using unroll::testing::second_order_error;

namespace {

using Values = std::vector<Value>;
using In = std::span<const Value>;

// Rounding of f (1e-16 * |f| / h = 1e-12 for |f| ~ 10) and the fifth derivative (h^4 = 1e-12 times ~ 100) leave 1e-9.
constexpr double k_tolerance = 1e-9;

constexpr std::int64_t B = 2, H = 2;

struct Masks {
  bool reverse, lengths, reset;
};

// A step with gates, a state used twice, a row [H] that is broadcast and an output that is no state.
StepResult lstm_step(const StepValues& v) {
  const Value h = v.states[0], c = v.states[1];
  const Values gates = split(v.sequences[0] + matmul(h, v.constants[0], {.a = false, .b = true}), -1, 4);
  const Value i = sigmoid(gates[0] + v.constants[1] * c), f = sigmoid(gates[1]), o = sigmoid(gates[3]);
  const Value next_c = f * c + i * tanh(gates[2]);
  const Value next_h = o * tanh(next_c);
  return {{next_h, next_c}, {next_h * next_c}};
}

ScanOptions mask_options(Graph& g, std::int64_t steps, Masks masks) {
  ScanOptions options{.reverse = masks.reverse, .lengths = {}, .reset = {}, .steps = steps};
  if (masks.lengths)
    options.lengths = constant(
        g, Tensor::from<std::int32_t>({B}, {static_cast<std::int32_t>(steps), static_cast<std::int32_t>(steps / 2)}));
  if (!masks.reset) return options;
  Tensor reset(DType::b8, {steps, B});
  for (std::int64_t e = 0; e < reset.elements(); ++e) reset.set(e, e % 5 == 3 || e % 7 == 2);
  options.reset = constant(g, reset);
  return options;
}

LossCase lstm_case(std::int64_t steps, Masks masks) {
  LossCase example;
  example.shapes = {{B, H}, {B, H}, {steps, B, 4 * H}, {4 * H, H}, {H}};
  example.loss = [=](In in) {
    const ScanResult r =
        scan(in.first(2), in.subspan(2, 1), in.subspan(3), lstm_step, mask_options(in[0].graph(), steps, masks));
    return sum(square(r.outputs[0])) + sum(r.states[0]) + sum(square(r.states[1]));
  };
  return example;
}

// A recurrent composite with T = 3, I = 2 and gradients of everything.
LossCase layer_case(Op cell, const RecurrentOptions& o, bool lengths) {
  const std::int64_t G = cell == Op::rnn ? 1 : cell == Op::gru ? 3 : 4, P = o.projection > 0 ? o.projection : o.hidden;
  const std::int64_t D = o.bidirectional ? 2 : 1, L = o.layers;
  const bool has_c = cell == Op::lstm;
  LossCase example;
  example.shapes = {{3, B, 2}, {L * D, B, P}};
  if (has_c) example.shapes.push_back({L * D, B, o.hidden});
  for (std::int64_t k = 0; k < L * D; ++k) {
    const auto add = [&](bool there, Shape shape) { if (there) example.shapes.push_back(shape); };
    add(true, {G * o.hidden, k < D ? 2 : D * P});
    add(true, {G * o.hidden, P});
    for (int i = 0; i < 2; ++i) add(o.bias, {G * o.hidden});
    add(o.projection > 0, {P, o.hidden});
    for (int i = 0; i < 3; ++i) add(o.peephole, {o.hidden});
  }
  example.loss = [=](In in) {
    RecurrentInputs inputs;
    inputs.x = in[0];
    inputs.h0 = in[1];
    if (has_c) inputs.c0 = in[2];
    if (lengths) inputs.lengths = constant(in[0].graph(), Tensor::from<std::int32_t>({B}, {2, 3}));
    inputs.parameters.assign(in.begin() + (has_c ? 3 : 2), in.end());
    const RecurrentResult r = recurrent(cell, inputs, o);
    const Value loss = sum(square(r.y)) + sum(exp(r.hn));
    return has_c ? loss + sum(square(r.cn)) : loss;
  };
  return example;
}

}  // namespace

TEST_CASE("gradients of a scan agree with differences for every length, direction and mask") {
  for (std::int64_t steps = 0; steps <= 7; ++steps)
    for (int bits = 0; bits < 8; ++bits) {
      const Masks masks{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
      CAPTURE(steps);
      CAPTURE(bits);
      CHECK(first_order_error(lstm_case(steps, masks)) < k_tolerance);
    }
}

TEST_CASE("gradients of gradients of a scan agree with differences") {
  for (int bits = 0; bits < 8; ++bits) {
    CAPTURE(bits);
    CHECK(second_order_error(lstm_case(3, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0})) < k_tolerance);
  }
  CHECK(second_order_error(lstm_case(0, {false, false, false})) < k_tolerance);
}

TEST_CASE("a scan with lengths and reset means what its lowering means") {
  for (int bits = 0; bits < 8; ++bits) {
    CAPTURE(bits);
    constexpr std::int64_t steps = 5;
    Graph g;
    const Value in[] = {g.input("h", {DType::f64, {B, H}}), g.input("c", {DType::f64, {B, H}}),
                        g.input("x", {DType::f64, {steps, B, 4 * H}}), g.input("w", {DType::f64, {4 * H, H}}),
                        g.input("p", {DType::f64, {H}})};
    const ScanResult r = scan(In(in).first(2), In(in).subspan(2, 1), In(in).subspan(3), lstm_step,
                              mask_options(g, steps, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0}));
    const Values lowered = lower_masks(g, r.states[0].id().node);
    const Values original{r.states[0], r.states[1], r.outputs[0]};
    TensorMap inputs;
    double seed = 0.3;
    for (const Value& value : in) {
      Tensor t(value.type());
      for (std::int64_t e = 0; e < t.elements(); ++e) t.set(e, seed = 1 - 1.9 * seed * seed);
      inputs.emplace(value.node().attributes.get<std::string>("name"), std::move(t));
    }
    for (std::size_t k = 0; k < 3; ++k) {
      g.output("a" + std::to_string(k), original[k]);
      g.output("b" + std::to_string(k), lowered[k]);
    }
    const TensorMap out = run_truth(g, inputs);
    for (std::size_t k = 0; k < 3; ++k) {
      const Tensor &a = out.at("a" + std::to_string(k)), &b = out.at("b" + std::to_string(k));
      for (std::int64_t e = 0; e < a.elements(); ++e) CHECK(a.at(e) == b.at(e));
    }
  }
}

TEST_CASE("a scan inside a scan, an integer state and a constant used in one step only have gradients") {
  LossCase example;
  example.shapes = {{2}, {3, 4, 2}, {2}};
  example.loss = [](In in) {
    const Value count = scalar(in[0].graph(), DType::i32, 0);
    const Value states[] = {in[0], count};
    const auto inner = [](const StepValues& v) {
      return StepResult{{tanh(v.states[0] * v.constants[0] + v.sequences[0])}, {}};
    };
    const auto outer = [&](const StepValues& v) {
      const Value last = scan(In(v.states).first(1), v.sequences, v.constants, inner).states[0];
      const Value second = equal(v.states[1], scalar_like(v.states[1], 1));
      return StepResult{{select(second, last * v.constants[0], last), v.states[1] + scalar_like(v.states[1], 1)},
                        {last}};
    };
    const ScanResult r = scan(states, in.subspan(1, 1), in.subspan(2, 1), outer);
    return sum(square(r.states[0])) + sum(r.outputs[0]);
  };
  CHECK(first_order_error(example) < k_tolerance);
  CHECK(second_order_error(example) < k_tolerance);
}

TEST_CASE("a scan without states, one whose state is overwritten, and one whose output is its input") {
  const LossCase cases[] = {
      {{{3, 2}, {2}},
       [](In in) {
         const auto step = [](const StepValues& v) { return StepResult{{}, {exp(v.sequences[0] * v.constants[0])}}; };
         return sum(square(scan({}, in.first(1), in.subspan(1), step).outputs[0]));
       }},
      {{{2}, {3, 2}},
       [](In in) {
         const auto step = [](const StepValues& v) { return StepResult{{square(v.sequences[0])}, {v.states[0]}}; };
         const ScanResult r = scan(in.first(1), in.subspan(1), {}, step);
         return sum(square(r.outputs[0])) + sum(r.states[0]);
       }},
      {{{2}, {3, 2}, {2}},
       [](In in) {
         const auto step = [](const StepValues& v) {
           return StepResult{{v.states[0]}, {v.sequences[0], v.constants[0], v.states[0]}};
         };
         const ScanResult r = scan(in.first(1), in.subspan(1, 1), in.subspan(2), step);
         return sum(square(r.outputs[0] * r.outputs[1])) + sum(square(r.outputs[2]));
       }},
  };
  for (const LossCase& example : cases) {
    CHECK(first_order_error(example) < k_tolerance);
    CHECK(second_order_error(example) < k_tolerance);
  }
}

TEST_CASE("gradients and gradients of gradients of primitives agree with differences") {
  struct Row {
    const char* name;
    LossCase example;
  };
  const auto unary = [](Value (*f)(Value)) { return [f](In in) { return sum(square(f(in[0]))); }; };
  const auto binary = [](Value (*f)(Value, Value)) { return [f](In in) { return sum(square(f(in[0], in[1]))); }; };
  const auto product = [](bool ta, bool tb) {
    const Shape a = ta ? Shape{2, 4, 3} : Shape{2, 3, 4}, b = tb ? Shape{2, 5, 4} : Shape{2, 4, 5};
    return LossCase{{a, b}, [=](In in) { return sum(square(matmul(in[0], in[1], {ta, tb}))); }};
  };
  const auto indices = [](Value like) { return constant(like.graph(), Tensor::from<std::int32_t>({4}, {2, 0, 2, 9})); };
  const Row rows[] = {
      {"neg", {{{3}}, unary(neg)}},
      {"abs", {{{3}}, unary(abs)}},
      {"exp", {{{3}}, unary(exp)}},
      {"expm1", {{{3}}, unary(expm1)}},
      {"log", {{{3}}, unary(log), 0.5, 2}},
      {"log1p", {{{3}}, unary(log1p), 0.5, 2}},
      {"sqrt", {{{3}}, unary(sqrt), 0.5, 2}},
      {"tanh", {{{3}}, unary(tanh)}},
      {"sigmoid", {{{3}}, unary(sigmoid)}},
      {"erf", {{{3}}, unary(erf)}},
      {"add", {{{3, 1}, {2}}, binary(add)}},
      {"sub", {{{3, 1}, {2}}, binary(sub)}},
      {"mul", {{{3, 1}, {2}}, binary(mul)}},
      {"div", {{{3, 1}, {2}}, binary(div), 0.5, 2}},
      {"maximum", {{{3, 1}, {2}}, binary(maximum)}},
      {"minimum", {{{3, 1}, {2}}, binary(minimum)}},
      {"select",
       {{{3, 1}, {2}}, [](In in) { return sum(square(select(less(in[0], in[1]), in[1] * in[0], exp(in[0])))); }}},
      {"transpose",
       {{{2, 3, 4}},
        [](In in) {
          return sum(exp(transpose(in[0], {2, 0, 1})) * square(transpose(in[0], {2, 0, 1})));
        }}},
      {"slice, pad and concat",
       {{{3, 4}},
        [](In in) {
          const Value parts[] = {slice(in[0], 1, 1, 2), pad(in[0], 1, 1, 2)};
          return sum(exp(concat(parts, 1)));
        }}},
      {"broadcast and reshape",
       {{{3, 1}},
        [](In in) {
          return sum(exp(reshape(broadcast(in[0], {2, 3, 4}), {6, 4})));
        }}},
      {"matmul", product(false, false)},
      {"matmul of a^T", product(true, false)},
      {"matmul with b^T", product(false, true)},
      {"matmul of a^T with b^T", product(true, true)},
      {"reduce_sum",
       {{{2, 3, 4}},
        [](In in) {
          return sum(exp(reduce_sum(in[0], {0, 2})));
        }}},
      {"reduce_max",
       {{{2, 3, 4}},
        [](In in) {
          return sum(exp(reduce_max(in[0], {0, 2}, true)));
        }}},
      {"gather", {{{3, 2}}, [&](In in) { return sum(exp(gather(in[0], indices(in[0])))); }}},
      {"scatter_add", {{{4, 2}}, [&](In in) { return sum(exp(scatter_add(indices(in[0]), in[0], 3))); }}},
      {"softmax", {{{2, 3}}, [](In in) { return sum(square(softmax(in[0]))); }}},
      {"layer_norm", {{{2, 3}, {3}, {3}}, [](In in) { return sum(exp(layer_norm(in[0], in[1], in[2]))); }}},
      {"attention over itself",
       {{{1, 3, 2}}, [](In in) { return sum(exp(dot_attention(in[0], in[0], tanh(in[0])).y)); }}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(first_order_error(row.example) < k_tolerance);
    CHECK(second_order_error(row.example) < k_tolerance);
  }
}

TEST_CASE("gradients of recurrent layers with every option agree with differences") {
  struct Row {
    const char* name;
    Op cell;
    RecurrentOptions options;
    bool lengths = false;
  };
  const Row rows[] = {
      {"rnn", Op::rnn, {.hidden = 2, .layers = 2}},
      {"rnn with relu, both directions and lengths", Op::rnn, {.hidden = 2, .bidirectional = true, .relu = true}, true},
      {"gru", Op::gru, {.hidden = 2, .bias = false}},
      {"gru with both directions and lengths", Op::gru, {.hidden = 2, .layers = 2, .bidirectional = true}, true},
      {"gru with the reset gate before", Op::gru, {.hidden = 2, .reset_after = false}, true},
      {"lstm", Op::lstm, {.hidden = 2, .layers = 2}},
      {"lstm with both directions and lengths", Op::lstm, {.hidden = 2, .layers = 2, .bidirectional = true}, true},
      {"lstm with projection and peepholes", Op::lstm, {.hidden = 3, .projection = 2, .peephole = true}, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(first_order_error(layer_case(row.cell, row.options, row.lengths)) < k_tolerance);
    if (row.options.layers == 1)
      CHECK(second_order_error(layer_case(row.cell, row.options, row.lengths)) < k_tolerance);
  }
}

TEST_CASE("at a tie maximum and minimum give the second operand the gradient, reduce_max shares it, abs has none") {
  Graph g;
  const Value a = g.input("a", {DType::f32, {2}}), b = g.input("b", {DType::f32, {2}});
  const Value wrt[] = {a, b};
  const auto put = [&](const char* name, Value loss) {
    const auto d = differentiate(loss, wrt);
    g.output(std::string("d_a of ") + name, d[0]);
    g.output(std::string("d_b of ") + name, d[1]);
  };
  put("maximum", sum(maximum(a, b)));
  put("minimum", sum(minimum(a, b)));
  put("relu", sum(relu(a)));
  put("reduce_max", reduce_max(a, {0}));
  put("abs", sum(abs(a)));
  const Tensor zeros(DType::f32, {2});
  const TensorMap out = run_truth(g, {{"a", zeros}, {"b", zeros}});
  const auto expect = [&](const std::string& name, double value) {
    CAPTURE(name);
    CHECK(out.at(name).at(0) == value);
    CHECK(out.at(name).at(1) == value);
  };
  expect("d_a of maximum", 0);
  expect("d_b of maximum", 1);
  expect("d_a of minimum", 0);
  expect("d_b of minimum", 1);
  expect("d_a of relu", 0);
  expect("d_a of reduce_max", 0.5);
  expect("d_a of abs", 0);
}

TEST_CASE("a float cast carries the gradient back in the dtype it came from") {
  Graph g;
  const Value x = g.input("x", {DType::f32, {2}});
  const Value wrt[] = {x};
  const Value d = differentiate(sum(square(cast(x, DType::f64))), wrt)[0];
  CHECK(d.dtype() == DType::f32);
  g.output("d", d);
  const TensorMap out = run_truth(g, {{"x", Tensor::from<float>({2}, {3, -2})}});
  CHECK(out.at("d").at(0) == 6);
  CHECK(out.at("d").at(1) == -4);
}

}  // namespace test_autodiff_numbers
