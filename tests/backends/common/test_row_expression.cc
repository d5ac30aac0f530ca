// SPDX-License-Identifier: Apache-2.0
// Row expressions printed as CUDA C++: compilers take the text, and its numbers are those of the reference.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <random>

#include "backends/common/print_expression.h"
#include "backends/common/print_rows.h"
#include "core/ir/ops/row_ops.h"
#include "tests/backends/common/expression_trees.h"
#include "tests/backends/common/printed_code.h"
#include "tests/support/setting.h"
#include "tests/support/temp_folder.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::common;
using namespace unroll::testing;

namespace {

struct RowCase {
  std::string text;
  std::shared_ptr<Graph> body;
  Ints sums = {};
  std::int64_t sum_rows = 0;

  // The fused reduction as a graph of its own: it is node number (inputs).
  std::unique_ptr<Graph> graph() const {
    auto g = std::make_unique<Graph>();
    std::vector<Value> in;
    for (const NamedValue& input : body->inputs()) in.push_back(g->input(input.name, body->type(input.value)));
    const auto results = g->append(Op::fused_reduction, in, {{"sums", sums}, {"sum_rows", sum_rows}}, body);
    for (std::size_t k = 0; k < results.size(); ++k) g->output(body->outputs()[k].name, results[k]);
    return g;
  }
  Expression expression() const { return expression_of_rows(graph()->nodes().back()); }
};
// x [rows, columns], s [rows, 1], w [columns], k []. Reductions of computed values, values needed again after them,
// slices, concatenations, whole numbers, masks, one column, and results of other columns.
std::vector<RowCase> row_cases() {
  struct Shapes {
    std::int64_t rows, columns;
  };
  std::vector<RowCase> list;
  using Build = std::function<void(Graph&, std::vector<Value>)>;
  const auto add = [&](const std::string& text, Shapes at, const Build& build) {
    auto body = std::make_shared<Graph>();
    std::vector<Value> in{body->input("x", {DType::f32, {at.rows, at.columns}}),
                          body->input("s", {DType::f32, {at.rows, 1}}), body->input("w", {DType::f32, {at.columns}}),
                          body->input("k", {DType::f32, {}})};
    build(*body, in);
    list.push_back({text, body});
  };
  const auto sum_of = [](Value x) { return reduce_sum(x, {1}, true); };
  for (const Shapes at : {Shapes{4, 7}, Shapes{5, 64}, Shapes{3, 1}, Shapes{2, 300}, Shapes{6, 300}, Shapes{9, 317}}) {
    add("layer norm", at, [&](Graph& g, std::vector<Value> in) {
      const Value centered = in[0] - sum_of(in[0]) / static_cast<double>(at.columns);
      const Value scale = 1 / sqrt(sum_of(square(centered)) + 1e-5);
      g.output("y", centered * scale * in[2] + in[3]);
      g.output("scale", scale);
    });
    add("softmax", at, [&](Graph& g, std::vector<Value> in) {
      const Value e = exp(in[0] - reduce_max(in[0], {1}, true));
      g.output("y", e / sum_of(e) * in[1]);
    });
    add("parts and masks", at, [&](Graph& g, std::vector<Value> in) {
      const Value y = tanh(in[0] * in[1]), all[] = {y, in[0], broadcast(in[1], in[0].shape()), y};
      const Value joined = concat(all, 1), part = slice(joined, 1, at.columns / 2, at.columns + 1);
      g.output("sum", sum_of(part));
      g.output("joined", joined + in[3]);
      g.output("first", slice(y, 1, at.columns - 1, 1) * in[1]);
      g.output("mask", less(y, in[2]));
      g.output("padded", pad(y * in[3], 1, 2, 1) + pad(in[0], 1, 0, 3));
      g.output("count", sum_of(cast(less(y, in[2]), DType::i32)));
      g.output("x", in[0]);
    });
    add("sums over rows", at, [&](Graph& g, std::vector<Value> in) {
      const Value centered = in[0] - sum_of(in[0]) / static_cast<double>(at.columns), y = centered * in[1];
      g.output("rows", y);
      g.output("sum", y);
      g.output("products", in[0] * (centered * in[1]));
      g.output("of operands", in[0]);
      g.output("of values", in[1] * in[3]);
      g.output("count", cast(less(y, in[2]), DType::i32));
    });
    list.back().sums = {1, 2, 3, 4, 5};
    list.back().sum_rows = at.rows % 2 == 0 ? 2 : at.rows;
  }
  // Rows [2,3] of which one operand repeats along the last axis, one along the first, and one lacks the first.
  auto body = std::make_shared<Graph>();
  const Value x = body->input("x", {DType::f32, {2, 3, 7}}), q = body->input("q", {DType::f32, {2, 1, 7}});
  const Value first = body->input("first", {DType::f32, {1, 3, 7}}), lacks = body->input("lacks", {DType::f32, {3, 1}});
  const Value y = tanh(x + q) * first;
  body->output("score", reduce_sum(y, {2}, true) + lacks);
  body->output("y", y);
  list.push_back({"repeated rows", body});
  return list;
}

PrintedKernel kernel_of(const RowCase& one, std::size_t k, const PrintOptions& options = {.short_indices = true}) {
  return print_row_kernel(one.expression(), "k" + std::to_string(k) + "_kernel", options);
}

std::string row_source(const std::vector<RowCase>& cases, const PrintOptions& options) {
  std::string text(shim(Dialect::cuda));
  text += print_prelude(Dialect::cuda) + print_row_prelude();
  for (std::size_t k = 0; k < cases.size(); ++k)
    text += as_function(cases[k].expression(), Dialect::cuda, "k" + std::to_string(k),
                        kernel_of(cases[k], k, options), options);
  return text;
}

void check_rows(const PrintOptions& options) {
  const std::vector<RowCase> cases = row_cases();
  const TempFolder folder;
  const PrintedCode code(folder.path(), {row_source(cases, options)}, "-O1");
  REQUIRE_MESSAGE(code.failure().empty(), code.failure().substr(0, 2000));
  std::mt19937_64 engine(setting("UNROLL_SEED", 1));
  std::uniform_real_distribution<double> number(-2, 2);
  std::vector<std::string> texts;
  for (const RowCase& one : cases) texts.push_back(kernel_of(one, 0, options).text);
  std::size_t others = 0;
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const auto graph = cases[k].graph();
    CAPTURE(cases[k].text);
    TensorMap inputs;
    std::vector<void*> in, out;
    for (const NamedValue& input : graph->inputs()) {
      Tensor tensor(graph->type(input.value));
      for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, number(engine));
      in.push_back(const_cast<std::byte*>(inputs.emplace(input.name, std::move(tensor)).first->second.bytes().data()));
    }
    std::vector<std::vector<std::byte>> results;
    for (const NamedValue& output : graph->outputs()) results.emplace_back(graph->type(output.value).bytes());
    for (auto& bytes : results) out.push_back(bytes.data());
    const TensorMap wanted = evaluate(*graph, *make_backend("reference"), inputs);
    const Shape& x = graph->type(graph->inputs()[0].value).shape;
    // The first kernel of the same text: which serves this shape too.
    std::size_t first = 0;
    while (texts[first] != texts[k]) ++first;
    others += first < k;
    void* const function = code.find("k" + std::to_string(first));
    REQUIRE(function);
    const auto sizes = packed_sizes(kernel_of(cases[k], 0, options).sizes, options, {});
    reinterpret_cast<PrintedFunction>(function)(in.data(), out.data(), sizes.data(), leading_axes(x).elements());
    // Sums in any order: 2 u per term of values below 8, times what follows them.
    const double allowed = 0x1p-23 * 8 * 8 * static_cast<double>(3 * x[x.rank() - 1] + 8);
    for (std::size_t o = 0; o < results.size(); ++o) {
      const Tensor& tensor = wanted.at(graph->outputs()[o].name);
      CAPTURE(graph->outputs()[o].name);
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const double got = number_at(tensor.dtype(), results[o], i);
        CHECK(std::abs(got - tensor.at(i)) <= allowed * std::max(1.0, std::abs(tensor.at(i))));
      }
    }
  }
  CHECK(others >= 6);
}

}  // namespace

TEST_CASE("row kernels printed as CUDA C++ agree with the reference") {
  if (!have(compilers().cpp, "no C++ compiler")) return;
  check_rows({});
  check_rows({.short_indices = true});
}

TEST_CASE("a row kernel has the same text for other numbers of rows, and of columns where its arrays are as large") {
  const std::vector<RowCase> cases = row_cases();
  for (std::size_t kind = 0; kind < 4; ++kind) {
    CAPTURE(cases[kind].text);
    const std::string text = kernel_of(cases[12 + kind], 0).text;  // 2 x 300
    CHECK(text == kernel_of(cases[16 + kind], 0).text);            // 6 x 300
    const bool divides_by_columns = kind == 0 || kind == 3;  // by a constant of the expression, which is a literal
    CHECK((text == kernel_of(cases[20 + kind], 0).text) == !divides_by_columns);  // 9 x 317
  }
}

TEST_CASE("a row expression that does not fit together is refused") {
  for (const RowCase& one : row_cases()) CHECK_NOTHROW(kernel_of(one, 0));
  Expression e = row_cases()[2].expression();
  for (Instruction& i : e.instructions)
    if (i.op == Op::slice) i.columns = 1000;
  CHECK_THROWS_AS(register_columns(e), Error);
}

TEST_CASE("nvcc compiles row kernels") {
  if (!have(compilers().cuda, "nvcc is absent: CUDA C++ is printed, not compiled")) return;
  std::string text = print_prelude(Dialect::cuda) + print_row_prelude();
  std::size_t n = 0;
  for (const RowCase& one : row_cases())
    text += kernel_of(one, n++).text;
  const std::string failure = failure_of_cuda(text);
  CHECK_MESSAGE(failure.empty(), failure.substr(0, 2000));
}
