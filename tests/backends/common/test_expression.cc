// SPDX-License-Identifier: Apache-2.0
// Expressions printed as C++ and CUDA C++: every op is there, the compilers take the text, and its numbers are
// those of the interpreter. UNROLL_SEED=n repeats a run, UNROLL_TREES=n changes how many.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "backends/common/print_expression.h"
#include "backends/cpu/kernels/kernels.h"
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

constexpr std::size_t k_trees = 10000, k_shim_trees = 750, k_cuda_trees = 150;
constexpr std::size_t k_per_file = 1250;
// Tolerances of one function: in random trees, as the cpu's functions keep, and in one op of CUDA C++.
constexpr int k_ulp = 4, k_shim_ulp = 10;

std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const std::uint64_t s = setting("UNROLL_SEED", std::random_device()());
    std::printf("expression trees: UNROLL_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return value;
}

using Memory = std::vector<std::vector<std::byte>>;

std::string top_of_file(Dialect dialect) { return std::string(shim(dialect)) + print_prelude(dialect); }

PrintedKernel kernel_of(const Expression& e, Dialect dialect, std::size_t k, const PrintOptions& options) {
  return print_kernel(e, dialect, "k" + std::to_string(k) + "_kernel", options);
}

// Expressions as shared libraries: kernel k is called k<k>.
std::vector<std::string> sources_of(const std::vector<Expression>& list, Dialect dialect,
                                    const PrintOptions& options) {
  std::vector<std::string> sources;
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (k % k_per_file == 0) sources.push_back(top_of_file(dialect));
    sources.back() += as_function(list[k], dialect, "k" + std::to_string(k), kernel_of(list[k], dialect, k, options),
                                  options);
  }
  return sources;
}

// Operand k lies (k + 1) elements after the beginning of its memory, where the kernel is told so.
Memory results_of(const Expression& e, void* function, const Memory& inputs, const PrintedKernel& kernel,
                  const PrintOptions& options) {
  const std::vector<DType> dtypes = register_dtypes(e);
  Memory placed, results;
  std::vector<void*> in, out;
  std::vector<std::int64_t> offsets;
  const auto place = [&](std::size_t bytes, DType dtype) {
    offsets.push_back(static_cast<std::int64_t>(offsets.size()) + 1);
    const std::size_t before = static_cast<std::size_t>(offsets.back()) * dtype_bytes(dtype);
    placed.emplace_back((before + bytes + 3) / 4 * 4);  // whole words
    return before;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t before = place(inputs[i].size(), dtypes[i]);
    std::copy(inputs[i].begin(), inputs[i].end(), placed.back().begin() + static_cast<std::ptrdiff_t>(before));
    in.push_back(placed.back().data());
  }
  const auto n = static_cast<std::size_t>(e.shape.elements());
  for (const auto& result : e.results) {
    place(n * dtype_bytes(dtypes[result.from]), dtypes[result.from]);
    std::fill(placed.back().begin(), placed.back().end(), std::byte{0x5a});
    out.push_back(placed.back().data());
  }
  const auto sizes = packed_sizes(kernel.sizes, options, offsets);
  reinterpret_cast<PrintedFunction>(function)(in.data(), out.data(), sizes.data(), e.shape.elements());
  for (std::size_t k = 0; k < e.results.size(); ++k) {
    const std::size_t size = dtype_bytes(dtypes[e.results[k].from]), operand = e.inputs.size() + k;
    const auto begin = placed[operand].begin() + static_cast<std::ptrdiff_t>((operand + 1) * size);
    results.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(n * size));
    for (auto at = placed[operand].begin(); at != placed[operand].end(); ++at)
      if (at < begin || at >= begin + static_cast<std::ptrdiff_t>(n * size)) CHECK(*at == std::byte{0x5a});
  }
  return results;
}
Memory results_of_interpreter(const Expression& e, const Memory& inputs) {
  const std::vector<DType> dtypes = register_dtypes(e);
  Memory results;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& bytes : inputs) in.push_back(bytes.data());
  for (const auto& result : e.results)
    results.emplace_back(static_cast<std::size_t>(e.shape.elements()) * dtype_bytes(dtypes[result.from]));
  for (auto& bytes : results) out.push_back(bytes.data());
  cpu::Elementwise(e).run(in, out, cpu::Worker{});
  return results;
}

struct Tally {
  std::size_t numbers = 0, tight = 0, wrong = 0;
};
// Counts numbers outside their bounds and shows the first.
void check_bounds(const Expression& e, const std::vector<std::vector<Bound>>& bounds, const Memory& results,
                  const std::string& who, Tally& tally) {
  const std::vector<DType> dtypes = register_dtypes(e);
  for (std::size_t k = 0; k < results.size(); ++k)
    for (std::int64_t x = 0; x < e.shape.elements(); ++x) {
      const Bound& bound = bounds[static_cast<std::size_t>(x)][k];
      const double got = number_at(dtypes[e.results[k].from], results[k], x);
      ++tally.numbers;
      tally.tight += bound.is_tight();
      if (bound.holds(got) || tally.wrong++ > 3) continue;
      FAIL_CHECK(who << " gives " << got << " for element " << x << " of result " << k << ", outside ["
                     << static_cast<double>(bound.lo) << ", " << static_cast<double>(bound.hi) << "]: " << text_of(e));
    }
}

Memory random_inputs(const Expression& e, Engine& engine, std::vector<Element>& elements) {
  Memory inputs;
  elements.assign(static_cast<std::size_t>(e.shape.elements()), {});
  for (const auto& input : e.inputs) {
    std::vector<double> numbers(static_cast<std::size_t>(extent_of(e.shape, input)));
    for (double& x : numbers) x = random_number(engine, input.dtype);
    inputs.push_back(bytes_of(input.dtype, numbers));
    for (std::int64_t x = 0; x < e.shape.elements(); ++x) {
      Element& element = elements[static_cast<std::size_t>(x)];
      element.number = x;
      element.inputs.push_back(number_at(input.dtype, inputs.back(), offset_of(e.shape, input.strides, x)));
      for (std::size_t k = 0; input.is_key && k < 3; ++k) element.key[k] = static_cast<std::int32_t>(numbers[k]);
    }
  }
  return inputs;
}

// The same text serves the extents of a tree, and larger ones.
void check_trees(Dialect dialect, std::size_t n, const PrintOptions& options) {
  Engine engine(seed() + static_cast<std::uint64_t>(dialect));
  constexpr std::int64_t k_larger[] = {0, 1, 3};
  std::vector<Expression> trees, shapes[std::size(k_larger)];
  for (std::size_t k = 0; k < n; ++k) {
    const Engine before = engine;
    trees.push_back(random_expression(engine, true, 0, /*with_draws=*/true));
    for (std::size_t s = 0; s < std::size(k_larger); ++s) {
      if (s > 0 && k % 8 != 0) continue;
      Engine again = before;
      shapes[s].push_back(random_expression(again, true, k_larger[s], /*with_draws=*/true));
      CHECK(kernel_of(shapes[s].back(), dialect, k, options).text == kernel_of(trees[k], dialect, k, options).text);
    }
  }
  const TempFolder folder;
  const PrintedCode code(folder.path(), sources_of(trees, dialect, options), "-O0");
  REQUIRE_MESSAGE(code.failure().empty(), code.failure().substr(0, 2000));
  Tally printed, interpreted;
  std::size_t drawing = 0;
  for (std::size_t s = 0; s < std::size(k_larger); ++s)
    for (std::size_t at = 0; at < shapes[s].size(); ++at) {
      const Expression& e = shapes[s][at];
      const std::size_t k = s == 0 ? at : 8 * at;
      std::vector<Element> elements;
      const Memory inputs = random_inputs(e, engine, elements);
      std::vector<std::vector<Bound>> bounds;
      for (const Element& element : elements)
        bounds.push_back(bounds_of(e, element, k_ulp));
      void* const function = code.find("k" + std::to_string(k));
      REQUIRE(function);
      check_bounds(e, bounds, results_of(e, function, inputs, kernel_of(e, dialect, k, options), options),
                   std::string(words(dialect).name), printed);
      if (has_draws(e)) ++drawing;  // the interpreter has neither draws nor index values
      else check_bounds(e, bounds, results_of_interpreter(e, inputs), "the interpreter", interpreted);
    }
  std::printf("%s: %zu trees, %zu with draws, %zu numbers within their bounds, %.1f %% of the bounds tight\n",
              std::string(words(dialect).name).c_str(), n, drawing, printed.numbers,
              100.0 * static_cast<double>(printed.tight) / static_cast<double>(printed.numbers));
  CHECK(drawing * 6 > n);
  CHECK(printed.wrong == 0);
  CHECK(interpreted.wrong == 0);
  CHECK(printed.tight * 2 > printed.numbers);  // otherwise the bounds say little
}

// ---- one op at a time

struct OneOp {
  Expression expression;
  std::shared_ptr<Graph> graph;
  std::string text;
};

const std::vector<double>& special_numbers(DType dtype) {
  using F = std::numeric_limits<float>;
  using I = std::numeric_limits<std::int32_t>;
  static const std::vector<double> floats{1.00390625, 1.01171875, 1.00048828125, 65519, 65520, 6e-5, -3e-8, 2e-8, 1e-40,
                                          0,    -0.0, 1,  -1,  0.5, -0.5, 0.25, -0.75, 1e-5,     -1e-5,         3,
                                          -7,   88,   -90, 105, -105, 3e9, -3e9, 1e30,  F::max(), F::infinity(),
                                          -F::infinity(), F::quiet_NaN()};
  static const std::vector<double> ints{0, 1, -1, 2, -2, 7, 100000, -99999, I::max(), I::min(), I::min() + 1.0};
  static const std::vector<double> truths{0, 1};
  return dtype == DType::b8 ? truths : dtype == DType::i32 ? ints : floats;
}

// Each op on each dtype it takes, over all pairs of special numbers.
OneOp one_op(Op op, DType dtype, DType to) {
  const OpInfo& info = op_info(op);
  const auto n = static_cast<std::int64_t>(special_numbers(dtype).size());
  OneOp one{{}, std::make_shared<Graph>(), std::string(info.name) + " on " + std::string(dtype_name(dtype))};
  std::vector<Value> operands;
  for (int k = 0; k < info.max_inputs; ++k)
    operands.push_back(
        one.graph->input("x" + std::to_string(k), {op == Op::select && k == 0 ? DType::b8 : dtype, {2 * n * n}}));
  Attributes attributes;
  if (op == Op::cast) attributes.set("dtype", to);
  const Value y = one.graph->append_one(op, operands, attributes);
  one.graph->output("y", y);
  one.expression = expression_of_node(*one.graph, y.node());
  return one;
}
std::vector<OneOp> every_op() {
  std::vector<OneOp> list;
  for (const OpInfo& info : op_table()) {
    if (!is_elementwise(info.op)) continue;
    for (const DType dtype : dtypes_of(info.op))
      for (const DType to : {DType::f32, DType::f64, DType::i32, DType::b8})
        if (info.op == Op::cast || to == DType::f32) list.push_back(one_op(info.op, dtype, to));
  }
  for (const DType half : {DType::bf16, DType::f16}) {  // loads, stores and moves
    list.push_back(one_op(Op::cast, half, DType::f32));
    list.push_back(one_op(Op::cast, DType::f32, half));
    for (const Op op : {Op::select, Op::stop_gradient}) list.push_back(one_op(op, half, half));
  }
  return list;
}

TensorMap special_inputs(const Graph& graph) {
  TensorMap inputs;
  for (std::size_t k = 0; k < graph.inputs().size(); ++k) {
    const Type& type = graph.type(graph.inputs()[k].value);
    const std::vector<double>& numbers = special_numbers(type.dtype);
    const auto n = static_cast<std::int64_t>(numbers.size());
    Tensor tensor(type);
    // The last operand changes slowly; the condition of a select has 2 numbers, its first branch an odd count.
    const bool slow = k > 0 && k + 1 == graph.inputs().size();
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, numbers[static_cast<std::size_t>((slow ? i / n : i) % n)]);
    inputs.emplace(graph.inputs()[k].name, std::move(tensor));
  }
  return inputs;
}

// How far a printed op may be from the reference: the same bits but for functions.
bool agrees(const OneOp& one, Dialect dialect, double got, double wanted) {
  if (got == wanted || (got != got && wanted != wanted)) return true;
  const bool is_function = op_info(one.expression.instructions[0].op).cost == OpCost::expensive;
  if (!is_function || dialect == Dialect::cpp || !is_float(one.expression.instructions[0].dtype)) return false;
  const double epsilon = one.expression.inputs[0].dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
  return std::abs(got - wanted) <= k_shim_ulp * epsilon * std::abs(wanted) + 0x1p-126;
}

void check_every_op(Dialect dialect, const PrintOptions& options) {
  std::vector<OneOp> ops = every_op();
  std::vector<Expression> expressions;
  for (const OneOp& one : ops) expressions.push_back(one.expression);
  const TempFolder folder;
  const PrintedCode code(folder.path(), sources_of(expressions, dialect, options), "-O2");
  REQUIRE_MESSAGE(code.failure().empty(), code.failure().substr(0, 2000));
  const auto reference = make_backend("reference");
  for (std::size_t k = 0; k < ops.size(); ++k) {
    const TensorMap inputs = special_inputs(*ops[k].graph);
    const Tensor wanted = evaluate(*ops[k].graph, *reference, inputs).at("y");
    Memory memory;
    for (const NamedValue& input : ops[k].graph->inputs()) {
      const auto bytes = inputs.at(input.name).bytes();
      memory.emplace_back(bytes.begin(), bytes.end());
    }
    const Memory got = results_of(ops[k].expression, code.find("k" + std::to_string(k)), memory,
                                  kernel_of(ops[k].expression, dialect, k, options), options);
    for (std::int64_t i = 0; i < wanted.elements(); ++i) {
      const double y = number_at(wanted.dtype(), got[0], i);
      if (agrees(ops[k], dialect, y, wanted.at(i))) continue;
      FAIL_CHECK(ops[k].text << " in " << words(dialect).name << " gives " << y << ", not " << wanted.at(i) << " for "
                             << inputs.at("x0").at(i));
      break;
    }
  }
}

}  // namespace

TEST_CASE("every elementwise op has a formula in every dialect for every dtype it takes") {
  for (const Dialect dialect : k_dialects)
    for (const OneOp& one : every_op()) {
      CAPTURE(one.text);
      CAPTURE(words(dialect).name);
      const Instruction& i = one.expression.instructions[0];
      CHECK(!formula(dialect, i.op, i.dtype, i.to).empty());
      CHECK_NOTHROW(print_kernel(one.expression, dialect, "f"));
    }
}

TEST_CASE("every op printed as C++ has the reference's bits, in the other dialect its numbers") {
  if (!have(compilers().cpp, "no C++ compiler")) return;
  for (const Dialect dialect : k_dialects) check_every_op(dialect, {});
}

TEST_CASE("random trees printed as C++ agree with the interpreter") {
  if (have(compilers().cpp, "no C++ compiler")) check_trees(Dialect::cpp, setting("UNROLL_TREES", k_trees), {});
}

TEST_CASE("random trees with short indices agree with the interpreter in all dialects, as C++ with their functions") {
  if (!have(compilers().cpp, "no C++ compiler")) return;
  check_trees(Dialect::cpp, k_shim_trees, {.short_indices = true});
  check_trees(Dialect::cuda, k_shim_trees, {.short_indices = true});
}

TEST_CASE("nvcc compiles the kernels of every op and of random trees") {
  if (!have(compilers().cuda, "nvcc is absent: CUDA C++ is printed, not compiled")) return;
  std::string text = print_prelude(Dialect::cuda);
  std::size_t n = 0;
  for (const OneOp& one : every_op())
    text += print_kernel(one.expression, Dialect::cuda, "k" + std::to_string(n++)).text;
  Engine engine(seed());
  for (std::size_t k = 0; k < k_cuda_trees; ++k)
    text += print_kernel(random_expression(engine, true, 0, /*with_draws=*/true), Dialect::cuda,
                         "k" + std::to_string(n++), {.short_indices = k % 2 == 0})
                .text;
  const std::string failure = failure_of_cuda(text);
  CHECK_MESSAGE(failure.empty(), failure.substr(0, 2000));
  std::printf("nvcc compiled %zu kernels\n", n);
}

TEST_CASE("axes that join have the text of one axis, and operands that walk otherwise have another text") {
  const auto text = [](const Shape& shape, const Shape& bias) {
    auto body = std::make_shared<Graph>();
    body->output("y", cast(cast(body->input("x", {DType::bf16, shape}), DType::f32) +
                           broadcast(body->input("b", {DType::f32, bias}), shape), DType::bf16));
    return print_kernel(expression_of_body(*body), Dialect::cuda, "f").text;
  };
  CHECK(text({3, 5}, {5}) == text({70, 1000}, {1000}));
  CHECK(text({3, 5}, {5}) == text({4, 6, 7}, {7}));
  CHECK(text({3, 5}, {5}) != text({3, 5}, {3, 1}));
  CHECK(text({3, 5}, {5}) != text({3, 5}, {3, 5}));
}

TEST_CASE("the caller of a printed expression supplies its loads and stores") {
  auto body = std::make_shared<Graph>();
  const Value a = body->input("a", {DType::f32, {4}}), b = body->input("b", {DType::f32, {4}});
  body->output("y", a * b);
  body->output("z", a + 1);
  const Splice splice{[](std::size_t i) { return "tile[" + std::to_string(i) + "]"; },
                      [](std::size_t k, const std::string& v) { return "put<" + std::to_string(k) + ">(" + v + ");"; }};
  CHECK(print_statements(expression_of_body(*body), Dialect::cuda, splice, "") ==
        "const float v0 = tile[0];\nconst float v1 = tile[1];\nconst float v2 = 1.0f;\n"
        "const float v3 = v0 * v1;\nconst float v4 = v0 + v2;\nput<0>(v3);\nput<1>(v4);\n");
}

TEST_CASE("indices that a shape does not allow are refused") {
  Graph graph;
  const Value x = graph.input("x", {DType::b8, {1 << 16, 1 << 15}});
  graph.output("y", logical_not(x));
  const Expression e = expression_of_node(graph, graph.nodes().back());
  CHECK_NOTHROW(print_kernel(e, Dialect::cuda, "f"));
  CHECK_THROWS_AS(print_kernel(e, Dialect::cuda, "f", {.short_indices = true}), Error);
}
