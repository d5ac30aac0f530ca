// SPDX-License-Identifier: Apache-2.0
// Sums and extrema over every choice of axes.
#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

struct ReduceRow {
  Shape shape;
  Ints axes;
  bool with_gradient = true;
};
const ReduceRow k_reduce_rows[] = {
    {{5}, {0}},           {{4, 3}, {0}},        {{4, 3}, {1}},       {{4, 3}, {0, 1}},       {{2, 3, 4}, {0}},
    {{2, 3, 4}, {1}},     {{2, 3, 4}, {2}},     {{2, 3, 4}, {0, 2}}, {{2, 3, 4}, {0, 1}},    {{2, 3, 4}, {1, 2}},
    {{2, 3, 4}, {0, 1, 2}}, {{1, 5}, {0}},      {{5, 1}, {1}},       {{0, 3}, {1}},          {{3, 4}, {}},
    {{}, {}},             {{2, 3, 2, 3}, {1, 3}}, {{37, 65}, {0}, false}, {{37, 65}, {1}, false}, {{1000}, {0}, false},
};
const Range k_distinct{.low = -4, .high = 4, .distinct = true};

int summed(const ReduceRow& row) {
  std::int64_t n = 1;
  for (const std::int64_t axis : row.axes) n *= row.shape[static_cast<int>(axis)];
  return static_cast<int>(n);
}
std::string text(const Ints& axes) {
  std::string s = " over";
  for (const std::int64_t axis : axes) s += " " + std::to_string(axis);
  return s;
}

void add_extrema(Cases& cases, const ReduceRow& row) {
  cases.push_back({.name = "reduce_max" + row.shape.text() + text(row.axes),
                   .build =
                       [row](Graph& g, DType d) {
                         g.output("y", reduce_max(g.input("x", {d, row.shape}), row.axes));
                       },
                   .ranges = {{"x", k_distinct}},
                   .agreement = k_exact,
                   .differentiable = row.with_gradient});
  if (row.axes.size() != 1) return;
  cases.push_back({.name = "argmax" + row.shape.text() + text(row.axes),
                   .build =
                       [row](Graph& g, DType d) {
                         g.output("y", argmax(g.input("x", {d, row.shape}), static_cast<int>(row.axes[0])));
                       },
                   .ranges = {{"x", k_distinct}},
                   .agreement = k_exact,
                   .differentiable = false,
                   .constant_output = true});
}

void add_whole(Cases& cases) {
  cases.push_back({.name = "reductions of i32", .build = [](Graph& g, DType) {
                     const Value x = g.input("x", {DType::i32, {7, 12}});
                     g.output("sum", reduce_sum(x, {0}));
                     g.output("max", reduce_max(x, {1}));
                     g.output("argmax", argmax(x, 0));
                   },
                   .ranges = {{"x", specials()}}, .agreement = k_exact, .differentiable = false});
  cases.push_back({.name = "extrema with NaN, infinities and ties",
                   .build =
                       [](Graph& g, DType d) {
                         const Value x = g.input("x", {d, {11, 9}}), few = g.input("few", {d, {11, 9}});
                         g.output("max", reduce_max(x, {0}));
                         g.output("argmax", argmax(x, 1));
                         g.output("first of equals", argmax(few, 1));
                       },
                   .ranges = {{"x", specials()}, {"few", {.low = -1, .high = 1, .grid = 1}}},
                   .agreement = k_exact,
                   .differentiable = false});
  cases.push_back({.name = "sum of nothing",
                   .build =
                       [](Graph& g, DType d) {
                         g.output("y", reduce_sum(g.input("x", {d, {4, 0}}), {1}));
                       },
                   .agreement = k_exact,
                   .constant_output = true});
  cases.push_back({.name = "mean and masked mean", .build = [](Graph& g, DType d) {
                     const Value x = g.input("x", {d, {4, 5}});
                     g.output("mean", mean(x));
                     g.output("masked", masked_mean(x, g.input("mask", {DType::b8, {4, 1}})));
                     g.output("nothing", masked_mean(x, filled(g, {DType::b8, {4, 5}}, 0)));
                   },
                   .agreement = {Rule::norm, 20}});
}

}  // namespace

void add_reduce_cases(Cases& cases) {
  for (const ReduceRow& row : k_reduce_rows) {
    for (const bool keep : {false, true})
      cases.push_back({.name = "reduce_sum" + row.shape.text() + text(row.axes) + (keep ? " kept" : ""),
                       .build =
                           [row, keep](Graph& g, DType d) {
                             g.output("y", reduce_sum(g.input("x", {d, row.shape}), row.axes, keep));
                           },
                       .agreement = {Rule::contraction, summed(row)},
                       .differentiable = row.with_gradient});
    add_extrema(cases, row);
  }
  add_whole(cases);
}

}  // namespace unroll::testing
