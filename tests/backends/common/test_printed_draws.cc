// SPDX-License-Identifier: Apache-2.0
// Random numbers and index values printed as C++ and CUDA C++: the bits of the reference.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/common/print_expression.h"
#include "tests/backends/common/printed_code.h"
#include "tests/support/temp_folder.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::common;
using namespace unroll::testing;

namespace {

struct Draw {
  std::string what;
  Shape shape;
  std::int32_t seed_low, seed_high, update, step;
  std::int64_t rng_stream;
};
// Number step * elements + e of a stream counts in 64 bits, and blocks of four share a counter: both carry.
const std::vector<Draw> k_draws = {
    {"one number", {}, 1, 2, 3, 0, 0},
    {"one block", {4}, 1, 2, 3, 0, 7},
    {"no whole blocks", {3, 5}, 1, 2, 3, 1, 7},
    {"many", {70, 33}, -5, 17, 12, 2, 2147483647},
    {"all bits of the key", {2, 64}, -1, -1, -1, 5, 4294967295},
    {"over 2^32 numbers", {100}, 9, -8, 7, 42949672, 11},            // 4294967200 + e
    {"over 2^34 numbers, a block of 2^32", {100}, 9, -8, 7, 171798691, 11},  // 17179869100 + e
    {"the last step", {64, 33}, 9, -8, 7, 2147483647, 11},
    {"a negative step", {10}, 9, -8, 7, -3, 11},
};

// Key, step and x are inputs; a draw, what a dropout makes of it, and index values along each axis.
struct Case {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  TensorMap inputs;
  Expression expression() const { return expression_of_body(*graph); }
};
Case case_of(const Draw& draw) {
  Case c;
  Graph& g = *c.graph;
  const Value key = g.input("key", {DType::i32, {3}}), step = g.input("step", {DType::i32, {}});
  const Value x = g.input("x", {DType::f32, draw.shape});
  const Value u = random_uniform(key, draw.shape, draw.rng_stream, step);
  g.output("u", u);
  g.output("dropped", select(less(u, broadcast(scalar_like(x, 0.25), draw.shape)), x - x, x * 2.0));
  for (int axis = 0; axis < draw.shape.rank(); ++axis)
    g.output("index" + std::to_string(axis), iota(g, draw.shape, axis));
  c.inputs["key"] = Tensor::from(Shape{3}, std::vector<std::int32_t>{draw.seed_low, draw.seed_high, draw.update});
  c.inputs["step"] = Tensor::scalar(DType::i32, draw.step);
  Tensor numbers(DType::f32, draw.shape);
  for (std::int64_t i = 0; i < numbers.elements(); ++i) numbers.set(i, static_cast<double>(i % 37) - 18.5);
  c.inputs["x"] = std::move(numbers);
  return c;
}

PrintedKernel kernel_of(const Case& c, Dialect dialect, const std::string& name) {
  return print_kernel(c.expression(), dialect, name);
}

// The bytes of each output by the printed kernel.
std::vector<std::vector<std::byte>> results_of(const Case& c, void* function, const PrintedKernel& kernel) {
  std::vector<void*> in, out;
  std::vector<std::vector<std::byte>> memory;
  memory.reserve(c.graph->inputs().size());
  for (const NamedValue& input : c.graph->inputs()) {
    const auto bytes = c.inputs.at(input.name).bytes();
    in.push_back(memory.emplace_back(bytes.begin(), bytes.end()).data());
  }
  std::vector<std::vector<std::byte>> results;
  results.reserve(c.graph->outputs().size());
  for (const NamedValue& output : c.graph->outputs())
    out.push_back(results.emplace_back(c.graph->type(output.value).bytes()).data());
  const auto sizes = packed_sizes(kernel.sizes, {}, {});
  reinterpret_cast<PrintedFunction>(function)(in.data(), out.data(), sizes.data(), kernel.sizes[0]);
  return results;
}

void check_draws(Dialect dialect) {
  std::string source = std::string(shim(dialect)) + print_prelude(dialect);
  std::vector<Case> cases;
  for (const Draw& draw : k_draws) {
    const std::string name = "k" + std::to_string(cases.size());
    cases.push_back(case_of(draw));
    const Case& c = cases.back();
    source += as_function(c.expression(), dialect, name, kernel_of(c, dialect, name + "_kernel"), {});
  }
  const TempFolder folder;
  const PrintedCode code(folder.path(), {source}, "-O2");
  REQUIRE_MESSAGE(code.failure().empty(), code.failure().substr(0, 2000));
  const auto reference = make_backend("reference");
  for (std::size_t k = 0; k < cases.size(); ++k) {
    CAPTURE(words(dialect).name);
    CAPTURE(k_draws[k].what);
    const std::string name = "k" + std::to_string(k);
    const TensorMap wanted = evaluate(*cases[k].graph, *reference, cases[k].inputs);
    const auto got = results_of(cases[k], code.find(name), kernel_of(cases[k], dialect, name + "_kernel"));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string& output = cases[k].graph->outputs()[i].name;
      CAPTURE(output);
      const auto bytes = wanted.at(output).bytes();
      CHECK(got[i] == std::vector<std::byte>(bytes.begin(), bytes.end()));
    }
  }
}

}  // namespace

TEST_CASE("printed draws and index values have the reference's bits in all dialects, run as C++") {
  if (!have(compilers().cpp, "no C++ compiler")) return;
  for (const Dialect dialect : k_dialects) check_draws(dialect);
}

TEST_CASE("nvcc takes printed draws") {
  std::string cuda = print_prelude(Dialect::cuda);
  for (std::size_t k = 0; k < k_draws.size(); ++k)
    cuda += kernel_of(case_of(k_draws[k]), Dialect::cuda, "k" + std::to_string(k)).text;
  if (have(compilers().cuda, "nvcc is absent: CUDA C++ is printed, not compiled")) CHECK(failure_of_cuda(cuda) == "");
}

TEST_CASE("one kernel serves every stream, count and shape of a rank") {
  const auto text = [](const Draw& draw) { return kernel_of(case_of(draw), Dialect::cuda, "f").text; };
  CHECK(text({"", {3, 5}, 0, 0, 0, 0, 7}) == text({"", {70, 1000}, 0, 0, 0, 0, 8}));
}

TEST_CASE("a single node is printed too, with a step or without") {
  for (const bool has_step : {false, true}) {
    Graph graph;
    const Value key = graph.input("key", {DType::i32, {3}}), step = graph.input("step", {DType::i32, {}});
    graph.output("u", random_uniform(key, {8}, 1, has_step ? step : Value{}));
    const Expression e = expression_of_node(graph, graph.nodes().back());
    CHECK(e.inputs.size() == (has_step ? 2 : 1));
    CHECK(e.constants.size() == (has_step ? 0 : 1));
    CHECK(print_kernel(e, Dialect::cpp, "f").text.find("unroll_draw(v0, uint(sizes[") != std::string::npos);
  }
  Graph graph;
  graph.output("i", iota(graph, {4, 6}, 1));
  CHECK(print_kernel(expression_of_node(graph, graph.nodes().back()), Dialect::cpp, "f").text.find("int(e % sizes[") !=
        std::string::npos);
}

TEST_CASE("a draw of another shape than its group's is refused, and so is one without the number of its element") {
  Graph body;
  const Value key = body.input("key", {DType::i32, {3}}), x = body.input("x", {DType::f32, {4, 6}});
  body.output("y", x + random_uniform(key, {6}, 1));
  CHECK_THROWS_AS(expression_of_body(body), Error);
  Graph graph;
  graph.output("u", random_uniform(graph.input("key", {DType::i32, {3}}), {8}, 1));
  const Expression e = expression_of_node(graph, graph.nodes().back());
  const Splice splice{[](std::size_t) { return std::string("x"); },
                      [](std::size_t, const std::string& v) { return v + ";"; }};
  CHECK_THROWS_AS(print_statements(e, Dialect::cuda, splice), Error);
  Splice with_element = splice;
  with_element.element = "at";
  CHECK(print_statements(e, Dialect::cuda, with_element).find("unroll_draw(v0, uint(1), v1, 8, at)") !=
        std::string::npos);
}
