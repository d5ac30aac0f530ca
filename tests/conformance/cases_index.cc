// SPDX-License-Identifier: Apache-2.0
// Rows by number, with repeats and numbers out of range; indices and random numbers.
#include "core/passes/lengths/packed_ops.h"
#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

struct IndexRow {
  Shape table, indices;
};
const IndexRow k_index_rows[] = {
    {{5, 3}, {4}}, {{5}, {6}},          {{4, 2, 3}, {3}}, {{5, 3}, {2, 3}}, {{1, 2}, {3}},
    {{5, 3}, {}},  {{3, 1}, {1}},       {{4, 3}, {0}},    {{0, 3}, {2}},    {{6, 0}, {2}},
    {{9, 37}, {50}},
};
const Range k_some_outside{.low = -1, .high = 6};

}  // namespace

void add_index_cases(Cases& cases) {
  for (const IndexRow& row : k_index_rows) {
    const std::string shapes = row.table.text() + row.indices.text();
    cases.push_back(
        {.name = "gather" + shapes,
         .build =
             [row](Graph& g, DType d) {
               g.output("y", gather(g.input("table", {d, row.table}), g.input("ids", {DType::i32, row.indices})));
             },
         .ranges = {{"ids", k_some_outside}},
         .agreement = k_exact,
         .constant_output = row.table[0] <= 1});
    Ints dims(row.indices.begin(), row.indices.end());
    dims.insert(dims.end(), row.table.begin() + 1, row.table.end());
    cases.push_back(
        {.name = "scatter_add" + shapes,
         .build =
             [row, updates = Shape(dims)](Graph& g, DType d) {
               g.output("y", scatter_add(g.input("ids", {DType::i32, row.indices}), g.input("updates", {d, updates}),
                                         row.table[0]));
             },
         .ranges = {{"ids", k_some_outside}},
         .agreement = {Rule::contraction, static_cast<int>(std::max<std::int64_t>(row.indices.elements(), 1))},
         .constant_output = row.indices.elements() <= 3});
  }
  cases.push_back({.name = "gather i32 and b8",
                   .build =
                       [](Graph& g, DType) {
                         const Value ids = g.input("ids", {DType::i32, {7}});
                         g.output("y", gather(g.input("numbers", {DType::i32, {6, 2}}), ids));
                         g.output("z", gather(g.input("truths", {DType::b8, {6, 5}}), ids));
                       },
                   .ranges = {{"ids", k_some_outside}, {"numbers", between(-99, 99)}},
                   .agreement = k_exact,
                   .differentiable = false});
  struct Lengths {
    int batch, steps;
  };
  for (const Lengths row : {Lengths{1, 1}, {4, 6}, {33, 5}, {5, 0}, {0, 3}}) {
    const int batch = row.batch, steps = row.steps;
    cases.push_back({.name = "pack_lengths of " + std::to_string(batch) + " for " + std::to_string(steps) + " steps",
                     .build =
                         [batch, steps](Graph& g, DType) {
                           const PackedRows p = pack_lengths(g.input("lengths", {DType::i32, {batch}}), steps);
                           const Value all[] = {p.batch_sizes, p.order, p.rank, p.pack, p.unpack, p.rows};
                           for (const Value& value : all) g.output("out" + std::to_string(g.outputs().size()), value);
                         },
                     .ranges = {{"lengths", between(-1, steps + 2.0)}},
                     .agreement = k_exact,
                     .differentiable = false,
                     .constant_output = batch * steps <= 1});
  }
  cases.push_back({.name = "iota", .build = [](Graph& g, DType) {
                     g.output("line", iota(g, {9}, 0));
                     g.output("rows", iota(g, {4, 3}, 0));
                     g.output("columns", iota(g, {4, 3}, 1));
                     g.output("none", iota(g, {0, 3}, 1));
                   },
                   .agreement = k_exact, .differentiable = false});
  cases.push_back({.name = "random_uniform",
                   .build =
                       [](Graph& g, DType) {
                         const Value key = g.input("key", {DType::i32, {3}}), step = g.input("step", {DType::i32, {}});
                         g.output("line", random_uniform(key, {1003}, 7));
                         g.output("table", random_uniform(key, {5, 7}, -3, step));
                         g.output("one", random_uniform(key, Shape{}, 1));
                         g.output("none", random_uniform(key, {0}, 1));
                       },
                   .ranges = {{"key", between(-1000000, 1000000)}, {"step", between(3, 9)}},
                   .agreement = k_exact,
                   .differentiable = false});
}

}  // namespace unroll::testing
