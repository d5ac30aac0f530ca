// SPDX-License-Identifier: Apache-2.0
// Ops that only place elements, and constants.
#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

using Move = std::function<Value(Value)>;

struct MoveRow {
  std::string name;
  Shape shape;
  Move f;
};

const MoveRow k_move_rows[] = {
    {"reshape to line", {2, 3, 4}, [](Value x) { return reshape(x, {24}); }},
    {"reshape to scalar", {1, 1}, [](Value x) { return reshape(x, Shape{}); }},
    {"reshape empty", {0, 3}, [](Value x) { return reshape(x, {5, 0}); }},
    {"transpose", {3, 5}, [](Value x) { return transpose(x, {1, 0}); }},
    {"transpose wide", {19, 35}, [](Value x) { return transpose(x, {1, 0}); }},
    {"transpose batch", {4, 3, 5}, [](Value x) { return transpose(x, {0, 2, 1}); }},
    {"transpose turn", {2, 3, 4}, [](Value x) { return transpose(x, {2, 0, 1}); }},
    {"transpose same", {2, 3}, [](Value x) { return transpose(x, {0, 1}); }},
    {"transpose heads", {2, 3, 4, 5}, [](Value x) { return transpose(x, {0, 2, 1, 3}); }},
    {"transpose of six axes", {2, 1, 3, 2, 2, 2}, [](Value x) { return transpose(x, {5, 3, 0, 4, 2, 1}); }},
    {"transpose scalar", {}, [](Value x) { return transpose(x, {}); }},
    {"transpose empty", {0, 4}, [](Value x) { return transpose(x, {1, 0}); }},
    {"slice rows", {5, 3}, [](Value x) { return slice(x, 0, 1, 3); }},
    {"slice columns", {5, 7}, [](Value x) { return slice(x, 1, 2, 4); }},
    {"slice middle", {2, 5, 3}, [](Value x) { return slice(x, 1, 4, 1); }},
    {"slice all", {4}, [](Value x) { return slice(x, 0, 0, 4); }},
    {"slice nothing", {4, 2}, [](Value x) { return slice(x, 0, 4, 0); }},
    {"slice of slice", {6, 6}, [](Value x) { return slice(slice(x, 0, 1, 4), 1, 2, 3); }},
    {"pad rows", {2, 3}, [](Value x) { return pad(x, 0, 1, 2); }},
    {"pad columns", {2, 3}, [](Value x) { return pad(x, -1, 2, 0); }},
    {"pad nothing", {2, 3}, [](Value x) { return pad(x, 0, 0, 0); }},
    {"pad empty", {0, 3}, [](Value x) { return pad(x, 0, 1, 1); }},
    {"broadcast scalar", {}, [](Value x) { return broadcast(x, {2, 3}); }},
    {"broadcast rows", {1, 4}, [](Value x) { return broadcast(x, {3, 4}); }},
    {"broadcast columns", {3, 1}, [](Value x) { return broadcast(x, {2, 3, 5}); }},
    {"broadcast to nothing", {1, 3}, [](Value x) { return broadcast(x, {0, 3}); }},
    {"windows", {7, 3}, [](Value x) { return windows(x, 0, 3); }},
    {"windows of columns", {2, 9, 3}, [](Value x) { return windows(x, 1, 4, 2); }},
    {"windows apart", {9, 2, 3}, [](Value x) { return windows(x, 0, 2, 3, 4); }},
    {"windows of two axes", {2, 5, 6, 3}, [](Value x) { return windows(windows(x, 1, 3), 2, 2, 2); }},
    {"windows as rows", {2, 7, 3}, [](Value x) { return reshape(windows(x, 1, 3, 2), {2, 3, 9}); }},
    {"a tap of windows", {2, 7, 3}, [](Value x) { return reshape(slice(windows(x, 1, 3), 2, 1, 1), {2, 5, 3}); }},
    {"no window", {2, 3}, [](Value x) { return windows(x, 0, 4); }},
    {"reshape of a transpose", {4, 3, 6}, [](Value x) { return reshape(transpose(x, {1, 0, 2}), {3, 4, 2, 3}); }},
    {"split and stack", {4, 6}, [](Value x) { return stack(split(x, 1, 3)); }},
    {"row", {4, 3}, [](Value x) { return row(x, 2); }},
};

bool may_be_zero(const std::string& name) { return name.rfind("pad", 0) == 0 || name == "broadcast scalar"; }

struct ConcatRow {
  std::string name;
  std::vector<Shape> shapes;
  int axis;
};
const ConcatRow k_concats[] = {
    {"rows", {{2, 3}, {1, 3}, {4, 3}}, 0},     {"columns", {{2, 3}, {2, 1}}, 1},
    {"middle", {{2, 1, 3}, {2, 4, 3}}, 1},     {"with empty", {{2, 3}, {0, 3}, {1, 3}}, 0},
    {"only empty", {{0, 3}, {0, 3}}, 0},       {"lines", {{1}, {1}, {1}, {1}, {1}}, 0},
};

}  // namespace

void add_move_cases(Cases& cases) {
  for (const MoveRow& row : k_move_rows) {
    cases.push_back({.name = row.name,
                     .build =
                         [f = row.f, shape = row.shape](Graph& g, DType d) {
                           g.output("y", f(g.input("x", {d, shape})));
                         },
                     .agreement = k_exact,
                     .constant_output = may_be_zero(row.name)});
    for (const DType fixed : {DType::i32, DType::b8, DType::bf16, DType::f16})
      cases.push_back({.name = row.name + " " + std::string(dtype_name(fixed)),
                       .build =
                           [f = row.f, shape = row.shape, fixed](Graph& g, DType) {
                             g.output("y", f(g.input("x", {fixed, shape})));
                           },
                       .ranges = {{"x", between(-1000, 1000)}},
                       .agreement = k_exact,
                       .differentiable = false,
                       .constant_output = may_be_zero(row.name) || fixed == DType::b8});
  }
  for (const ConcatRow& row : k_concats)
    cases.push_back({.name = "concat " + row.name,
                     .build = [row](Graph& g, DType d) {
                       std::vector<Value> parts;
                       for (const Shape& shape : row.shapes)
                         parts.push_back(g.input("x" + std::to_string(parts.size()), {d, shape}));
                       g.output("y", concat(parts, row.axis));
                     },
                     .agreement = k_exact});
  cases.push_back({.name = "concat of one value twice", .build = [](Graph& g, DType d) {
                     const Value x = g.input("x", {d, {3, 2}});
                     const Value parts[] = {x, x};
                     g.output("y", concat(parts, 1));
                   },
                   .agreement = k_exact});
  cases.push_back({.name = "outputs that are inputs and constants", .build = [](Graph& g, DType d) {
                     const Value x = g.input("x", {d, {5}});
                     g.output("x again", x);
                     g.output("and again", x);
                     g.output("numbers", constant(g, Tensor::from<float>({4}, {1, 2, 3, 4})));
                     g.output("filled", filled(g, {d, {2}}, 0.5) * x.graph().input("y", {d, {2}}));
                   },
                   .agreement = k_exact});
}

}  // namespace unroll::testing
