// SPDX-License-Identifier: Apache-2.0
// Same-index ops: every op alone over shapes, broadcasts and the ends of the number range.
#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

using Unary = Value (*)(Value);
using Binary = Value (*)(Value, Value);

struct UnaryRow {
  const char* name;
  Unary f;
  Range range;
  Agreement agreement;
};
const UnaryRow k_unary[] = {
    {"neg", neg, {}, k_exact},
    {"abs", abs, off_zero(), k_exact},
    {"sign", sign, off_zero(), k_exact},
    {"exp", exp, between(-3, 3), {}},
    {"expm1", expm1, between(-3, 3), {}},
    {"log", log, between(0.25, 4), {}},
    {"log1p", log1p, between(-0.75, 4), {}},
    {"sqrt", sqrt, between(0.25, 4), {}},
    {"tanh", tanh, between(-3, 3), {}},
    {"sigmoid", sigmoid, between(-5, 5), {}},
    {"erf", erf, between(-3, 3), {}},
    {"square", square, {}, {}},
    {"relu", relu, off_zero(), k_exact},
    {"silu", silu, between(-4, 4), {Rule::pointwise, 2}},
    {"softplus", softplus, off_zero(), {Rule::pointwise, 3}},
};

const Shape k_shapes[] = {{}, {0}, {1}, {7}, {3, 5}, {2, 0, 4}, {2, 3, 4}, {1, 1, 1, 1}, {67}};
constexpr std::int64_t k_long = 1003;  // blocks of vectors, several threads, and a rest

void add_unary(Cases& cases, const UnaryRow& row) {
  const auto over = [&row](Shape shape) {
    return [f = row.f, shape](Graph& g, DType d) { g.output("y", f(g.input("x", {d, shape}))); };
  };
  const std::string name = row.name;
  for (const Shape& shape : k_shapes)
    cases.push_back({.name = name + shape.text(), .build = over(shape), .ranges = {{"x", row.range}},
                     .agreement = row.agreement, .constant_output = name == "sign"});
  cases.push_back({.name = name + " long",
                   .build = over({k_long}),
                   .ranges = {{"x", row.range}},
                   .agreement = row.agreement,
                   .differentiable = false,
                   .constant_output = name == "sign"});
  if (row.agreement.depth > 1) return;  // functions in a row may lose a denormal between them
  cases.push_back({.name = name + " special",
                   .build = over({99}),
                   .ranges = {{"x", specials()}},
                   .agreement = row.agreement,
                   .differentiable = false});
}

struct BinaryRow {
  const char* name;
  Binary f;
  Range a, b;
  bool compares;
};
const Range k_even{.low = -2, .high = 2, .grid = 0.25};
const Range k_odd{.low = -2, .high = 2, .grid = 0.25, .phase = 0.125};
const Range k_few{.low = -1, .high = 1, .grid = 1};  // with many equal pairs
const BinaryRow k_binary[] = {
    {"add", add, {}, {}, false},
    {"sub", sub, {}, {}, false},
    {"mul", mul, {}, {}, false},
    {"div", div, {}, off_zero(0.25), false},
    {"maximum", maximum, k_even, k_odd, false},
    {"minimum", minimum, k_even, k_odd, false},
    {"less", less, k_few, k_few, true},
    {"less_equal", less_equal, k_few, k_few, true},
    {"equal", equal, k_few, k_few, true},
};
struct Pair {
  Shape a, b;
};
const Pair k_pairs[] = {
    {{5}, {5}},    {{}, {4}},       {{4}, {}},          {{2, 1}, {3}},       {{2, 3}, {1, 3}}, {{3, 1}, {3, 5}},
    {{0, 3}, {3}}, {{1}, {1}},      {{2, 3, 4}, {3, 1}}, {{2, 1, 4}, {3, 1}}, {{7, 9}, {9}},    {{1, 9}, {7, 1}},
};

void add_binary(Cases& cases, const BinaryRow& row) {
  const auto over = [&row](Shape a, Shape b) {
    return [f = row.f, a, b](Graph& g, DType d) { g.output("y", f(g.input("a", {d, a}), g.input("b", {d, b}))); };
  };
  const std::string name = row.name;
  const Agreement agreement = row.compares ? k_exact : Agreement{};
  for (const Pair& p : k_pairs)
    cases.push_back({.name = name + p.a.text() + p.b.text(),
                     .build = over(p.a, p.b),
                     .ranges = {{"a", row.a}, {"b", row.b}},
                     .agreement = agreement,
                     .differentiable = !row.compares,
                     .constant_output = row.compares});
  cases.push_back({.name = name + " long", .build = over({k_long}, {k_long}), .ranges = {{"a", row.a}, {"b", row.b}},
                   .agreement = agreement, .differentiable = false});
  cases.push_back({.name = name + " special",
                   .build = over({33}, {33, 1}),
                   .ranges = {{"a", specials()}, {"b", specials()}},
                   .agreement = agreement,
                   .differentiable = false});
  const auto whole = [f = row.f](Graph& g, DType) {
    g.output("y", f(g.input("a", {DType::i32, {12}}), g.input("b", {DType::i32, {12, 1}})));
  };
  cases.push_back({.name = name + " i32", .build = whole, .ranges = {{"a", specials()}, {"b", specials()}},
                   .agreement = k_exact, .differentiable = false});
}

void add_truth(Cases& cases) {
  const auto add_case = [&](const char* name, std::function<void(Graph&, DType)> build) {
    cases.push_back({.name = name, .build = std::move(build), .agreement = k_exact, .differentiable = false});
  };
  const Type a{DType::b8, {8, 9}}, b{DType::b8, {9}};
  add_case("logical_and", [=](Graph& g, DType) { g.output("y", logical_and(g.input("a", a), g.input("b", b))); });
  add_case("logical_or", [=](Graph& g, DType) { g.output("y", logical_or(g.input("a", a), g.input("b", b))); });
  add_case("logical_not", [=](Graph& g, DType) { g.output("y", logical_not(g.input("a", a))); });
  add_case("equal b8", [=](Graph& g, DType) { g.output("y", equal(g.input("a", a), g.input("b", b))); });
  cases.push_back({.name = "is_finite special",
                   .build =
                       [](Graph& g, DType d) {
                         g.output("y", is_finite(g.input("x", {d, {99}})));
                       },
                   .ranges = {{"x", specials()}},
                   .agreement = k_exact,
                   .differentiable = false});
  for (const auto& [name, f] : {std::pair<const char*, Unary>{"neg i32", neg}, {"abs i32", abs}, {"sign i32", sign}})
    cases.push_back({.name = name,
                     .build =
                         [f = f](Graph& g, DType) {
                           g.output("y", f(g.input("x", {DType::i32, {24}})));
                         },
                     .ranges = {{"x", specials()}},
                     .agreement = k_exact,
                     .differentiable = false});
}

void add_select(Cases& cases) {
  struct Triple {
    Shape condition, a, b;
  };
  for (const Triple& t : {Triple{{6}, {6}, {6}},
                          {{6}, {}, {6}},
                          {{2, 1}, {1, 3}, {2, 3}},
                          {{4}, {3, 1}, {}},
                          {{0}, {0}, {1}},
                          {{1}, {7}, {7}}})
    cases.push_back({.name = "select" + t.condition.text() + t.a.text() + t.b.text(),
                     .build =
                         [t](Graph& g, DType d) {
                           g.output("y", select(g.input("c", {DType::b8, t.condition}), g.input("a", {d, t.a}),
                                                g.input("b", {d, t.b})));
                         },
                     .agreement = k_exact});
  cases.push_back({.name = "select i32 long",
                   .build = [](Graph& g, DType) {
                     g.output("y", select(g.input("c", {DType::b8, {k_long}}), g.input("a", {DType::i32, {k_long}}),
                                          g.input("b", {DType::i32, {}})));
                   },
                   .ranges = {{"a", between(-100, 100)}}, .agreement = k_exact, .differentiable = false});
}

void add_cast(Cases& cases) {
  const Range grid{.low = -3, .high = 3, .grid = 0x1p-6, .phase = 0x1p-7};
  const auto to = [](DType target) {
    return [target](Graph& g, DType d) {
      g.output("y", g.append_one(Op::cast, std::vector{g.input("x", {d, {5, 7}})}, {{"dtype", target}}));
    };
  };
  // Points of the differences are exact in f32, so that the rounding of the cast cannot show.
  cases.push_back(
      {.name = "cast to f32", .build = to(DType::f32), .ranges = {{"x", grid}}, .agreement = k_exact, .step = 0x1p-10});
  cases.push_back({.name = "cast to f64", .build = to(DType::f64), .ranges = {{"x", grid}}, .agreement = k_exact});
  cases.push_back({.name = "cast to i32",
                   .build = to(DType::i32),
                   .ranges = {{"x", grid}},
                   .agreement = k_exact,
                   .differentiable = false});
  cases.push_back({.name = "cast special to b8",
                   .build = to(DType::b8),
                   .ranges = {{"x", specials()}},
                   .agreement = k_exact,
                   .differentiable = false});
  cases.push_back({.name = "cast special to i32",
                   .build = to(DType::i32),
                   .ranges = {{"x", specials()}},
                   .agreement = k_exact,
                   .differentiable = false});
  for (const DType from : {DType::i32, DType::b8})
    cases.push_back({.name = "cast from " + std::string(dtype_name(from)),
                     .build =
                         [from](Graph& g, DType d) {
                           const Value x = g.input("x", {from, {37}});
                           g.output("y", cast(x, d));
                           g.output("z", cast(x, from == DType::i32 ? DType::b8 : DType::i32));
                         },
                     .ranges = {{"x", between(-9, 9)}},
                     .agreement = k_exact,
                     .differentiable = false,
                     .constant_output = true});
}

void add_chains(Cases& cases) {
  // Groups that a backend may fuse, with a value used twice and broadcasts inside.
  cases.push_back({.name = "chain with sharing",
                   .build = [](Graph& g, DType d) {
                     const Value x = g.input("x", {d, {6, 5}}), b = g.input("b", {d, {5}});
                     const Value s = sigmoid(x + b), t = tanh(x * 0.5);
                     g.output("y", s * t + (1.0 - s) * b);
                     g.output("s", s);
                   },
                   .agreement = {Rule::norm, 8}});
  for (const auto& [name, f] : {std::pair<const char*, Unary>{"round_bf16", round_bf16},
                                {"round_f16", round_f16},
                                {"round_tf32", round_tf32}}) {
    const Unary round = f;
    const auto build = [round](Graph& g, DType d) { g.output("y", round(g.input("x", {d, {999}}))); };
    cases.push_back({.name = name, .build = build, .agreement = k_exact, .differentiable = false});
    cases.push_back({.name = std::string(name) + " special", .build = build, .ranges = {{"x", specials()}},
                     .agreement = k_exact, .differentiable = false});
  }
  cases.push_back({.name = "stop_gradient",
                   .build =
                       [](Graph& g, DType d) {
                         g.output("y", stop_gradient(g.input("x", {d, {9}})));
                       },
                   .agreement = k_exact,
                   .differentiable = false});
  cases.push_back({.name = "fused body",
                   .build = [](Graph& g, DType d) {
                     auto body = std::make_shared<Graph>();
                     const Value p = body->input("p", {d, {6, 5}}), q = body->input("q", {d, {5}});
                     const Value product = tanh(p * q);
                     body->output("product", product);
                     body->output("positive", less(scalar(*body, d, 0), product));
                     const Value inputs[] = {g.input("p", {d, {6, 5}}), g.input("q", {d, {5}})};
                     const auto outputs = g.append(Op::fused, inputs, {}, body);
                     g.output("product", outputs[0]);
                     g.output("positive", outputs[1]);
                   },
                   .agreement = {Rule::pointwise, 2}, .differentiable = false});
  cases.push_back({.name = "fused reduction",
                   .build = [](Graph& g, DType d) {
                     const Type row{d, {6, 5}}, value{d, {6, 1}}, shared{d, {5}};
                     auto body = std::make_shared<Graph>();
                     const Value p = body->input("p", row), q = body->input("q", value), w = body->input("w", shared);
                     const Value centered = p - reduce_sum(p, {1}, true) * 0.2;
                     const Value parts[] = {slice(centered, 1, 2, 3) * q, tanh(centered * w)};
                     const Value both = concat(parts, 1);
                     body->output("both", both);
                     body->output("largest", reduce_max(both, {1}, true));
                     const Value inputs[] = {g.input("p", row), g.input("q", value), g.input("w", shared)};
                     const auto outputs = g.append(Op::fused_reduction, inputs, {}, body);
                     g.output("both", outputs[0]);
                     g.output("largest", outputs[1]);
                   },
                   .agreement = {Rule::norm, 8}, .differentiable = false});
  cases.push_back({.name = "fused reduction with sums over rows",
                   .build = [](Graph& g, DType d) {
                     const Type row{d, {3, 4, 5}}, value{d, {3, 4, 1}};
                     auto body = std::make_shared<Graph>();
                     const Value p = body->input("p", row), q = body->input("q", value);
                     const Value centered = p - reduce_sum(p, {2}, true) * 0.2;
                     body->output("centered", centered);
                     body->output("sum", centered);
                     body->output("product", p * (centered * q));
                     body->output("q", q);
                     const Value inputs[] = {g.input("p", row), g.input("q", value)};
                     const Attributes sums{{"sums", Ints{1, 2, 3}}, {"sum_rows", std::int64_t{6}}};
                     const auto outputs = g.append(Op::fused_reduction, inputs, sums, body);
                     for (std::size_t k = 0; k < outputs.size(); ++k) g.output(body->outputs()[k].name, outputs[k]);
                   },
                   .agreement = {Rule::norm, 8}, .differentiable = false});
}

}  // namespace

void add_elementwise_cases(Cases& cases) {
  for (const UnaryRow& row : k_unary) add_unary(cases, row);
  for (const BinaryRow& row : k_binary) add_binary(cases, row);
  add_truth(cases);
  add_select(cases);
  add_cast(cases);
  add_chains(cases);
}

}  // namespace unroll::testing
