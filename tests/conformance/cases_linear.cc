// SPDX-License-Identifier: Apache-2.0
// Matrix products: every transposition, batches, edges of blocks, and products with nothing to sum.
#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

struct Product {
  std::int64_t m, n, k;
  std::vector<std::int64_t> batch;
  bool with_gradient;
};
const Product k_products[] = {
    {1, 1, 1, {}, true},     {2, 3, 4, {}, true},     {3, 1, 5, {}, true},     {1, 6, 2, {}, true},
    {0, 3, 2, {}, true},     {3, 0, 2, {}, true},     {3, 2, 0, {}, true},     {2, 3, 2, {2}, true},
    {2, 2, 3, {2, 2}, true}, {2, 2, 2, {0}, true},    {17, 33, 9, {}, false},  {1, 65, 130, {}, false},
    {33, 1, 17, {}, false},  {7, 24, 300, {}, false}, {64, 48, 32, {}, false}, {31, 33, 35, {}, false},
    {9, 17, 21, {3}, false}, {128, 16, 8, {}, false}, {5, 200, 3, {}, false},  {130, 70, 260, {}, false},
};

Shape matrix(const Product& p, std::int64_t rows, std::int64_t columns) {
  Ints dims = p.batch;
  dims.insert(dims.end(), {rows, columns});
  return Shape(dims);
}

}  // namespace

void add_linear_cases(Cases& cases) {
  for (const Product& p : k_products)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const Shape a = ta ? matrix(p, p.k, p.m) : matrix(p, p.m, p.k),
                    b = tb ? matrix(p, p.n, p.k) : matrix(p, p.k, p.n);
        cases.push_back({.name = "matmul" + a.text() + (ta ? "^T" : "") + b.text() + (tb ? "^T" : ""),
                         .build = [=](Graph& g, DType d) {
                           g.output("y", matmul(g.input("a", {d, a}), g.input("b", {d, b}), {.a = ta, .b = tb}));
                         },
                         .agreement = {Rule::contraction, static_cast<int>(p.k)}, .differentiable = p.with_gradient,
                         .constant_output = p.k == 0});
      }
  for (const auto& [name, shape] :
       {std::pair<const char*, Shape>{"matrix", {4, 3}}, {"sequence", {3, 2, 3}}, {"line", {3}}, {"empty", {0, 2, 3}}})
    cases.push_back({.name = std::string("linear over a ") + name,
                     .build = [s = shape](Graph& g, DType d) {
                       g.output("y", linear(g.input("x", {d, s}), g.input("w", {d, {5, 3}}), g.input("b", {d, {5}})));
                     },
                     .agreement = {Rule::norm, 4}});
  cases.push_back({.name = "product of a matrix with itself", .build = [](Graph& g, DType d) {
                     const Value x = g.input("x", {d, {4, 4}});
                     g.output("y", matmul(x, x, {.a = false, .b = true}));
                   },
                   .agreement = {Rule::contraction, 4}});
  cases.push_back(
      {.name = "product with a tanh and a sum behind",
       .build =
           [](Graph& g, DType d) {
             const Value y = matmul(g.input("x", {d, {6, 40}}), g.input("w", {d, {40, 9}})) + g.input("b", {d, {9}});
             g.output("y", tanh(y));
             g.output("norm", sum(square(y)));
           },
       .ranges = {{"x", between(-0.2, 0.2)}},
       .agreement = {Rule::norm, 400},
       .differentiable = false});
}

}  // namespace unroll::testing
