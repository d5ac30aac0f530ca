// SPDX-License-Identifier: Apache-2.0
// Values stored in 16 bits: conversions, moves (cases_move.cc has most), products, sums, and loops that carry them.
#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

constexpr DType k_halves[] = {DType::bf16, DType::f16};

struct HalfProduct {
  std::int64_t m, n, k;
  std::vector<std::int64_t> batch = {};
};
const HalfProduct k_half_products[] = {
    {1, 1, 1},    {2, 3, 4},   {3, 0, 2},   {0, 3, 2},         {3, 2, 0},       {17, 33, 9},    {1, 65, 130},
    {33, 1, 17},  {7, 24, 301}, {64, 48, 32}, {9, 17, 21, {3}}, {2, 2, 3, {2, 2}}, {130, 70, 260}, {150, 40, 901},
};

Shape matrix(const HalfProduct& p, std::int64_t rows, std::int64_t columns) {
  Ints dims = p.batch;
  dims.insert(dims.end(), {rows, columns});
  return Shape(dims);
}

void add_products(Cases& cases, DType half, const std::string& name) {
  for (const HalfProduct& p : k_half_products)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const Shape a = ta ? matrix(p, p.k, p.m) : matrix(p, p.m, p.k),
                    b = tb ? matrix(p, p.n, p.k) : matrix(p, p.k, p.n);
        cases.push_back({.name = "matmul of " + name + a.text() + (ta ? "^T" : "") + b.text() + (tb ? "^T" : ""),
                         .build =
                             [=](Graph& g, DType) {
                               const Value left = g.input("a", {half, a}), right = g.input("b", {half, b});
                               g.output("y", matmul(left, right, {.a = ta, .b = tb}));
                             },
                         .agreement = {Rule::contraction, static_cast<int>(p.k)},
                         .differentiable = false,
                         .constant_output = p.k == 0});
      }
  cases.push_back({.name = "product of " + name + " stored in 16 bits",
                   .build =
                       [=](Graph& g, DType) {
                         const Value operands[] = {g.input("a", {half, {13, 70}}), g.input("b", {half, {70, 41}})};
                         Attributes attributes;
                         attributes.set("transpose_a", false);
                         attributes.set("transpose_b", false);
                         attributes.set("dtype", half);
                         g.output("y", g.append(Op::matmul, operands, attributes)[0]);
                       },
                   .agreement = {Rule::contraction, 70},
                   .differentiable = false});
  cases.push_back({.name = "product of few numbers with a constant of " + name,
                   .build =
                       [=](Graph& g, DType) {
                         Tensor weights(half, {70, 130});
                         for (std::int64_t i = 0; i < weights.elements(); ++i)
                           weights.set(i, static_cast<double>(i * 37 % 101) / 64);
                         g.output("y", matmul(g.input("a", {half, {3, 70}}), constant(g, std::move(weights))));
                       },
                   .agreement = {Rule::contraction, 70},
                   .differentiable = false});
}

void add_sums(Cases& cases, DType half, const std::string& name) {
  const std::pair<Shape, Ints> rows[] = {{{3, 5}, {0}},       {{3, 5}, {1}},    {{130, 600}, {0}}, {{5, 9000}, {1}},
                                         {{4, 37, 5}, {0, 2}}, {{20, 33}, {0, 1}}, {{0, 3}, {0}}};
  for (const auto& row : rows)
    cases.push_back({.name = "sum of " + name + row.first.text() + " over " + std::to_string(row.second.size()) +
                             " axes from " + std::to_string(row.second[0]),
                     .build =
                         [shape = row.first, axes = row.second, half](Graph& g, DType) {
                           g.output("y", reduce_sum(g.input("x", {half, shape}), axes));
                         },
                     .agreement = {Rule::contraction, static_cast<int>(row.first.elements())},
                     .differentiable = false,
                     .constant_output = row.first.elements() == 0});
}

// A state, a stack and a sequence of 16 bits beside a state of f32; the product reads the first as it is carried.
void add_loops(Cases& cases, DType half, const std::string& name) {
  for (const bool masked : {false, true})
    for (const bool reverse : {false, true})
      cases.push_back(
          {.name = "loop of " + name + (masked ? " with masks" : "") + (reverse ? " reversed" : ""),
           .build =
               [=](Graph& g, DType) {
                 constexpr std::int64_t T = 4, B = 9, H = 12;
                 const Value states[] = {g.input("h", {half, {B, H}}), g.input("sum", {DType::f32, {B, H}})};
                 const Value sequences[] = {g.input("x", {half, {T, B, H}})};
                 const Value constants[] = {g.input("weight", {half, {H, H}})};
                 ScanOptions options;
                 options.reverse = reverse;
                 options.steps = T;
                 if (masked) options.lengths = g.input("lengths", {DType::i32, {B}});
                 if (masked) options.reset = g.input("reset", {DType::b8, {T, B}});
                 const ScanResult r = scan(
                     states, sequences, constants,
                     [half](const StepValues& v) {
                       const Value a = matmul(v.states[0], v.constants[0]) * 0.5 + cast(v.sequences[0], DType::f32);
                       const Value h = cast(a, half);
                       return StepResult{{h, v.states[1] + a}, {v.states[0], h, v.sequences[0]}};
                     },
                     options);
                 for (std::size_t k = 0; k < r.states.size(); ++k)
                   g.output("s" + std::to_string(k), cast(r.states[k], DType::f32));
                 for (std::size_t k = 0; k < r.outputs.size(); ++k)
                   g.output("y" + std::to_string(k), cast(r.outputs[k], DType::f32));
               },
           // Multiples of 1/2: products and sums of them, and hence what is rounded, are the same in any order.
           .ranges = {{"h", {.low = -2, .high = 2, .grid = 0.5}},
                      {"sum", {.low = -2, .high = 2, .grid = 0.5}},
                      {"x", {.low = -2, .high = 2, .grid = 0.5}},
                      {"weight", {.low = -1, .high = 1, .grid = 1}},
                      {"lengths", between(0, 4)}},
           .agreement = k_exact,
           .differentiable = false});
}

}  // namespace

void add_half_cases(Cases& cases) {
  for (const DType half : k_halves) {
    const std::string name(dtype_name(half));
    const DType other = half == DType::bf16 ? DType::f16 : DType::bf16;
    cases.push_back({.name = "cast to " + name + " and back",
                     .build =
                         [half](Graph& g, DType d) {
                           const Value y = cast(g.input("x", {d, {9, 41}}), half);
                           g.output("y", y);
                           g.output("back", cast(y, d));
                         },
                     .ranges = {{"x", specials()}},
                     .agreement = k_exact,
                     .differentiable = false});
    for (const DType from : {DType::i32, DType::b8, other})
      cases.push_back({.name = "cast of " + std::string(dtype_name(from)) + " to " + name + " and back",
                       .build =
                           [=](Graph& g, DType) {
                             const Value y = cast(g.input("x", {from, {77}}), half);
                             g.output("y", y);
                             g.output("back", cast(y, from));
                           },
                       .ranges = {{"x", between(-1000, 1000)}},
                       .agreement = k_exact,
                       .differentiable = false,
                       .constant_output = true});
    cases.push_back({.name = "arithmetic between loads and stores of " + name,
                     .build =
                         [half](Graph& g, DType) {
                           const Value a = g.input("a", {half, {7, 65}}), b = g.input("b", {half, {65}}),
                                       x = g.input("x", {DType::f32, {7, 1}});
                           const Value y = cast(a, DType::f32) * x + cast(b, DType::f32);
                           g.output("y", y);
                           g.output("stored", cast(y, half));
                           g.output("rounded", cast(cast(y, half), DType::f32) - y);
                         },
                     .agreement = k_exact,
                     .differentiable = false});
    cases.push_back({.name = "functions stored in " + name,
                     .build =
                         [half](Graph& g, DType) {
                           const Value a = g.input("a", {half, {7, 65}});
                           g.output("y", cast(tanh(cast(a, DType::f32)) * sigmoid(cast(a, DType::f32)), half));
                         },
                     .agreement = {Rule::pointwise, 3},
                     .differentiable = false});
    cases.push_back({.name = "select and gather of " + name,
                     .build =
                         [half](Graph& g, DType) {
                           const Value a = g.input("a", {half, {6, 37}}), b = g.input("b", {half, {37}});
                           g.output("chosen", select(g.input("c", {DType::b8, {6, 1}}), a, b));
                           g.output("rows", gather(a, g.input("ids", {DType::i32, {11}})));
                           const Value parts[] = {a, a};
                           g.output("both", pad(concat(parts, 1), 1, 3, 1));
                         },
                     .ranges = {{"ids", between(-1, 6)}},
                     .agreement = k_exact,
                     .differentiable = false});
    add_products(cases, half, name);
    add_sums(cases, half, name);
    add_loops(cases, half, name);
  }
}

}  // namespace unroll::testing
