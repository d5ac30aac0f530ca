// SPDX-License-Identifier: Apache-2.0
// Products of the cuda backend that cuBLASLt computes with what follows them, and those in tf32: which they are, and
// that the numbers stay those of the reference. On the library of the tests (tests/backends/cuda/shim/cublaslt.cc) or a
// real one.
#include <doctest/doctest.h>
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "backends/cuda/library/blas.h"
#include "tests/support/long_sum.h"
#include "tests/support/or_skip.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_cuda_products {

using namespace unroll;

namespace {

constexpr std::int64_t M = 6, N = 8, K = 5;

// What the library of the tests counts; 0 where a real one is behind the backend.
int counted(const char* name) {
  void* const library = dlopen(cuda::blas_libraries().names[0], RTLD_NOW | RTLD_LOCAL);
  const void* const count = library ? dlsym(library, name) : nullptr;
  return count ? *static_cast<const int*>(count) : 0;
}
bool has_shim() {
  void* const library = dlopen(cuda::blas_libraries().names[0], RTLD_NOW | RTLD_LOCAL);
  if (library && dlsym(library, "unroll_shim_blas_epilogues")) return true;
  std::printf("skipped: without the library of the tests\n");
  return false;
}

Tensor numbers(const Type& type, int seed) {
  Tensor t(type);
  for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, static_cast<double>((i * 37 + seed * 11) % 19 - 9) / 8);
  return t;
}

struct Operands {
  Graph& graph;
  Value a, w, bias;  // [M, K], [K, N], [N]
};
using Build = std::function<Value(const Operands&)>;

struct Outcome {
  int epilogues, products;      // of one run
  std::vector<std::string> lines;  // of the report
  TensorMap got, expected;
};
Outcome outcome(const Build& build, DType dtype = DType::f32, const TensorMap& other = {}) {
  Graph graph;
  const Operands o{graph, graph.input("a", {dtype, {M, K}}), graph.input("w", {dtype, {K, N}}),
                   graph.input("bias", {dtype, {N}})};
  graph.output("y", build(o));
  TensorMap inputs = other;
  int seed = 0;
  for (const NamedValue& input : graph.inputs()) inputs.emplace(input.name, numbers(graph.type(input.value), ++seed));
  const auto cuda = make_backend("cuda");
  Program program(graph, *cuda);
  Outcome out{counted("unroll_shim_blas_epilogues"), counted("unroll_shim_blas_products"), {}, {}, {}};
  out.got = program.run(inputs);
  out.epilogues = counted("unroll_shim_blas_epilogues") - out.epilogues;
  out.products = counted("unroll_shim_blas_products") - out.products;
  for (const ReportLine& line : program.executable().report()) out.lines.push_back(line.implementation);
  for (int run = 0; run < 2; ++run) out.got = program.run(inputs);  // the second one is captured
  out.expected = evaluate(graph, *make_backend("reference"), inputs);
  return out;
}
void check_equal(const Outcome& o, double tolerance = 0) {
  const Tensor &got = o.got.at("y"), &expected = o.expected.at("y");
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got.at(i) - expected.at(i)) <= tolerance * std::abs(expected.at(i)));
  }
}
bool says(const Outcome& o, const std::string& text) {
  for (const std::string& line : o.lines)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

Value biased(const Operands& o) { return matmul(o.a, o.w) + o.bias; }

}  // namespace

TEST_CASE("a bias, relu and both are part of the product, also with transposed operands, and say so in the report") {
  if (!has_shim()) return;
  const struct {
    std::string text;
    Build build;
  } cases[] = {
      {"cuBLASLt, with bias", biased},
      {"cuBLASLt, with relu", [](const Operands& o) { return relu(matmul(o.a, o.w)); }},
      {"cuBLASLt, with bias and relu", [](const Operands& o) { return relu(biased(o)); }},
      {"cuBLASLt, with bias and relu",
       [](const Operands& o) { return maximum(scalar(o.graph, DType::f32, 0), o.bias + matmul(o.a, o.w)); }},
      {"cuBLASLt, with bias",
       [](const Operands& o) { return matmul(transpose(o.a, {1, 0}), transpose(o.w, {1, 0}), {true, true}) + o.bias; }},
  };
  for (const auto& each : cases) {
    CAPTURE(each.text);
    const Outcome o = outcome(each.build);  // sums of few eighths are exact in every order
    CHECK(o.epilogues == 1);
    CHECK(o.products == 1);
    CHECK(says(o, each.text));
    check_equal(o);
  }
}

TEST_CASE("products of 16-bit numbers have a bias in f32, and none where the result is rounded again") {
  if (!has_shim()) return;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(dtype_name(dtype));
    const auto wide = [](const Operands& o) { return o.graph.input("b", {DType::f32, {N}}); };
    const Outcome f32 = outcome([&](const Operands& o) { return relu(matmul(o.a, o.w) + wide(o)); }, dtype);
    CHECK(f32.epilogues == 1);
    check_equal(f32);
    const Outcome rounded =
        outcome([&](const Operands& o) { return cast(relu(matmul(o.a, o.w)), o.a.type().dtype); }, dtype);
    CHECK(rounded.epilogues == 1);
    check_equal(rounded);
    const Outcome both =
        outcome([&](const Operands& o) { return cast(matmul(o.a, o.w) + wide(o), o.a.type().dtype); }, dtype);
    CHECK(both.epilogues == 0);  // the bias would have to be a 16-bit number
    check_equal(both);
  }
}

TEST_CASE("what the library has no epilogue for is a node of its own") {
  if (!has_shim()) return;
  const struct {
    std::string why;
    Build build;
  } cases[] = {
      {"another function", [](const Operands& o) { return tanh(biased(o)); }},
      {"a scale", [](const Operands& o) { return matmul(o.a, o.w) * 2.0 + o.bias; }},
      {"a residual", [](const Operands& o) { return matmul(o.a, o.w) + o.graph.input("r", {DType::f32, {M, N}}); }},
      {"a value for each row",
       [](const Operands& o) { return matmul(o.a, o.w) + o.graph.input("r", {DType::f32, {M, 1}}); }},
      {"two biases", [](const Operands& o) { return biased(o) + o.graph.input("b", {DType::f32, {N}}); }},
      {"a bias at an odd address",
       [](const Operands& o) { return matmul(o.a, o.w) + slice(o.graph.input("b", {DType::f32, {N + 1}}), 0, 1, N); }},
      {"not positive", [](const Operands& o) { return maximum(matmul(o.a, o.w), scalar(o.graph, DType::f32, 1)); }},
      {"another reader",
       [](const Operands& o) {
         const Value p = matmul(o.a, o.w);
         return relu(p) + reduce_sum(p, {0});
       }},
  };
  for (const auto& each : cases) {
    CAPTURE(each.why);
    const Outcome o = outcome(each.build);
    CHECK(o.products == 1);
    CHECK(o.epilogues == 0);
    check_equal(o);
  }
  CHECK(outcome(biased, DType::f64).epilogues == 0);
}

TEST_CASE("relu keeps NaN, as that of all backends does") {
  if (!testing::or_skip([] { return make_backend("cuda"); })) return;
  Tensor a = numbers({DType::f32, {M, K}}, 1);
  a.set(K, std::numeric_limits<double>::quiet_NaN());
  const Outcome o = outcome([](const Operands& in) { return relu(biased(in)); }, DType::f32, {{"a", a}});
  for (std::int64_t column = 0; column < N; ++column) CHECK(std::isnan(o.got.at("y").at(N + column)));
}

TEST_CASE("with precision tf32 all products of rounded operands are in tf32, also in loops and after moves") {
  if (!has_shim()) return;
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {12, K}}), w = graph.input("w", {DType::f32, {K, N}}),
              u = graph.input("u", {DType::f32, {N, N}}), h0 = graph.input("h0", {DType::f32, {3, N}});
  const auto step = [](const StepValues& at) {
    const Value h = tanh(at.sequences[0] + matmul(at.states[0], at.constants[0]));
    return StepResult{{h}, {h}};
  };
  const Value gates = reshape(matmul(x, w), {4, 3, N});
  const ScanResult r = scan(std::vector{h0}, std::vector{gates}, std::vector{u}, step);
  graph.output("y", matmul(reshape(r.outputs[0], {12, N}), u, {false, true}));
  TensorMap inputs;
  int seed = 0;
  for (const NamedValue& input : graph.inputs()) {
    Tensor t = numbers(graph.type(input.value), ++seed);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, t.at(i) / 3);  // which tf32 rounds
    inputs.emplace(input.name, t);
  }
  PlanOptions options;
  options.precision = Precision::tf32;
  const auto cuda = make_backend("cuda"), reference = make_backend("reference");
  const int products = counted("unroll_shim_blas_products"), tf32 = counted("unroll_shim_blas_tf32");
  const Tensor got = evaluate(graph, *cuda, inputs, options).at("y");
  CHECK(counted("unroll_shim_blas_products") - products == 6);  // four steps
  CHECK(counted("unroll_shim_blas_tf32") - tf32 == 6);
  const Tensor expected = evaluate(graph, *reference, inputs, options).at("y");
  // A sum in another order may round a state to the next tf32 number, 2^-10 away, of N in the next sum.
  for (std::int64_t i = 0; i < got.elements(); ++i) CHECK(std::abs(got.at(i) - expected.at(i)) < N * 0x1p-10);
  const int before = counted("unroll_shim_blas_tf32");
  evaluate(graph, *cuda, inputs);
  CHECK(counted("unroll_shim_blas_tf32") == before);  // strict f32 otherwise
}

TEST_CASE("an own product of many terms adds up at most 1,024 of them in a row") {
  if (!has_shim()) return;
  CHECK(testing::long_sum_error(*make_backend("cuda", {.specific = {{"products", "own"}}}), 20000) <= 1);
}

}  // namespace test_cuda_products
