// SPDX-License-Identifier: Apache-2.0
// Products of the cuda backend by cuBLASLt: used where they can be, the same numbers as own kernels, also in graphs and
// at odd addresses; a library that is missing or fails is a typed error or does no harm. On the library of the tests
// (tests/backends/cuda/shim/cublaslt.cc), which refuses what the real one forbids.
#include <doctest/doctest.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "backends/cuda/library/blas.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

namespace test_cuda_blas {

using namespace unroll;
using namespace unroll::cuda;

namespace {

#if __has_include(<cublasLt.h>)
template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(sizeof(blas::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(blas::Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(blas::Heuristic, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(blas::Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(same(blas::Status::alloc_failed, CUBLAS_STATUS_ALLOC_FAILED));
static_assert(same(blas::Status::not_supported, CUBLAS_STATUS_NOT_SUPPORTED));
static_assert(same(blas::Type::f32, CUDA_R_32F) && same(blas::Type::f64, CUDA_R_64F));
static_assert(same(blas::Type::f16, CUDA_R_16F) && same(blas::Type::bf16, CUDA_R_16BF));
static_assert(same(blas::Compute::f32, CUBLAS_COMPUTE_32F) && same(blas::Compute::f64, CUBLAS_COMPUTE_64F));
static_assert(same(blas::Compute::tf32, CUBLAS_COMPUTE_32F_FAST_TF32));
static_assert(same(blas::OperationAttribute::epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE));
static_assert(same(blas::OperationAttribute::bias, CUBLASLT_MATMUL_DESC_BIAS_POINTER));
static_assert(same(blas::Epilogue::none, CUBLASLT_EPILOGUE_DEFAULT));
static_assert(same(blas::Epilogue::relu, CUBLASLT_EPILOGUE_RELU));
static_assert(same(blas::Epilogue::bias, CUBLASLT_EPILOGUE_BIAS));
static_assert(same(blas::Epilogue::bias_relu, CUBLASLT_EPILOGUE_RELU_BIAS));
static_assert(sizeof(blas::Epilogue) == sizeof(cublasLtEpilogue_t));
static_assert(same(blas::OperationAttribute::transpose_a, CUBLASLT_MATMUL_DESC_TRANSA));
static_assert(same(blas::OperationAttribute::transpose_b, CUBLASLT_MATMUL_DESC_TRANSB));
static_assert(same(blas::LayoutAttribute::batch_count, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT));
static_assert(same(blas::LayoutAttribute::batch_stride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET));
static_assert(same(blas::PreferenceAttribute::workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
static_assert(same(blas::PreferenceAttribute::reduction_schemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK));
static_assert(same(blas::PreferenceAttribute::alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES));
static_assert(same(blas::PreferenceAttribute::alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
static_assert(same(blas::k_reduction_schemes, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
#endif

// Null where a device, or nothing, is behind the backend.
const int* counted_products() {
  static const int* const count = [] {
    void* const library = dlopen(blas_libraries().names[0], RTLD_NOW | RTLD_LOCAL);
    return library ? static_cast<const int*>(dlsym(library, "unroll_shim_blas_products")) : nullptr;
  }();
  return count;
}
bool has_shim() {
  if (!counted_products()) std::printf("skipped: without the library of the tests\n");
  return counted_products() != nullptr;
}
std::size_t objects() {
  void* const library = dlopen(blas_libraries().names[0], RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<std::size_t (*)()>(dlsym(library, "unroll_shim_blas_objects"))();
}

Tensor numbers(DType dtype, const Shape& shape, int seed) {
  Tensor t(dtype, shape);
  for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, static_cast<double>((i * 37 + seed * 11) % 19 - 9) / 8);
  return t;
}

struct Case {
  std::string name;
  DType dtype;
  Shape a, b;
  bool transpose_a = false, transpose_b = false;
};
// Sums of few eighths are exact in every order.
const Case k_cases[] = {
    {"plain", DType::f32, {5, 7}, {7, 3}},
    {"b transposed", DType::f32, {5, 7}, {3, 7}, false, true},
    {"a transposed", DType::f32, {7, 5}, {7, 3}, true, false},
    {"both transposed", DType::f32, {7, 5}, {3, 7}, true, true},
    {"one row", DType::f32, {1, 7}, {7, 3}},
    {"one column", DType::f32, {5, 7}, {7, 1}},
    {"one term", DType::f32, {5, 1}, {1, 3}},
    {"matrices", DType::f32, {4, 5, 7}, {4, 7, 3}},
    {"one b for all", DType::f32, {4, 5, 7}, {7, 3}},
    {"one a for all", DType::f32, {5, 7}, {4, 7, 3}},
    {"f64", DType::f64, {5, 7}, {3, 7}, false, true},
    {"bf16", DType::bf16, {5, 7}, {7, 3}},
    {"f16", DType::f16, {6, 8}, {8, 4}},
};

TensorMap product_on(Backend& backend, const Case& c, int runs = 1) {
  Graph graph;
  Value a = graph.input("a", {c.dtype, c.a}), b = graph.input("b", {c.dtype, c.b});
  const std::int64_t matrices = std::max(c.a.rank(), c.b.rank()) > 2 ? 4 : 0;  // a view of one stands for all
  if (matrices && c.a.rank() == 2) a = broadcast(reshape(a, c.a.inserted(0, 1)), c.a.inserted(0, matrices));
  if (matrices && c.b.rank() == 2) b = broadcast(reshape(b, c.b.inserted(0, 1)), c.b.inserted(0, matrices));
  graph.output("y", matmul(a, b, {c.transpose_a, c.transpose_b}));
  Program program(graph, backend);
  TensorMap result;
  for (int run = 0; run < runs; ++run)
    result = program.run({{"a", numbers(c.dtype, c.a, 1)}, {"b", numbers(c.dtype, c.b, 2)}});
  return result;
}

}  // namespace

TEST_CASE("products of every form are the library's, and the numbers those of the reference") {
  if (!has_shim()) return;
  const auto reference = make_backend("reference");
  for (const Case& c : k_cases) {
    CAPTURE(c.name);
    const auto cuda = make_backend("cuda");
    const int before = *counted_products();
    const TensorMap got = product_on(*cuda, c, 3), expected = product_on(*reference, c);
    CHECK(*counted_products() > before);
    for (std::int64_t i = 0; i < got.at("y").elements(); ++i) CHECK(got.at("y").at(i) == expected.at("y").at(i));
  }
  CHECK(objects() == 0);
}

TEST_CASE("own kernels give the same, and are used where that is asked for") {
  if (!has_shim()) return;
  const auto own = make_backend("cuda", {.specific = {{"products", "own"}}}),
             library = make_backend("cuda", {.specific = {{"products", "cublaslt"}}});
  CHECK(own->describe().device.find("own products") != std::string::npos);
  CHECK(library->describe().device.find("cuBLASLt 13.1") != std::string::npos);
  for (const Case& c : k_cases) {
    CAPTURE(c.name);
    const TensorMap expected = product_on(*library, c);
    const int before = *counted_products();
    const TensorMap got = product_on(*own, c);
    CHECK(*counted_products() == before);
    for (std::int64_t i = 0; i < got.at("y").elements(); ++i) CHECK(got.at("y").at(i) == expected.at("y").at(i));
  }
}

TEST_CASE("in a loop each step has its addresses, aligned or not") {
  if (!has_shim()) return;
  // A step's slice of x has 3 * 5 floats, so every second one lies at an odd multiple of four bytes.
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {6, 3, 5}}), w = graph.input("w", {DType::f32, {5, 5}});
  const Value zero = filled(graph, {DType::f32, {3, 5}}, 0);
  const ScanResult r = scan(std::vector{zero}, std::vector{x}, std::vector{w}, [](const StepValues& step) {
    const Value h = step.states[0], weight = step.constants[0];
    const Value next = matmul(step.sequences[0], weight) + matmul(h, weight) * 0.125;
    return StepResult{{next}, {next}};
  });
  graph.output("y", r.outputs[0]);
  const TensorMap inputs{{"x", numbers(DType::f32, {6, 3, 5}, 3)}, {"w", numbers(DType::f32, {5, 5}, 4)}};
  const auto cuda = make_backend("cuda"), reference = make_backend("reference");
  Program program(graph, *cuda);
  const int before = *counted_products();
  const Tensor expected = evaluate(graph, *reference, inputs).at("y");
  for (int run = 0; run < 3; ++run) {
    const Tensor got = program.run(inputs).at("y");
    for (std::int64_t i = 0; i < got.elements(); ++i) CHECK(got.at(i) == doctest::Approx(expected.at(i)).epsilon(1e-5));
  }
  CHECK(*counted_products() > before);
}

TEST_CASE("where the library is not installed products are own kernels, unless it is asked for") {
  const BlasLibraries before = blas_libraries();
  blas_libraries() = {{"libno-such.so.1", "libno-such.so.2", "libno-such.so"}};
  if (counted_products()) {
    const auto cuda = make_backend("cuda");
    CHECK(cuda->describe().device.find("no cuBLASLt") != std::string::npos);
    const TensorMap got = product_on(*cuda, k_cases[0]), expected = product_on(*make_backend("reference"), k_cases[0]);
    for (std::int64_t i = 0; i < got.at("y").elements(); ++i) CHECK(got.at("y").at(i) == expected.at("y").at(i));
    const BackendOptions wanted{.specific = {{"products", "cublaslt"}}};
    CHECK_THROWS_WITH_AS(make_backend("cuda", wanted), doctest::Contains("no libno-such.so.1"), Error);
  }
  blas_libraries() = before;
}

TEST_CASE("whatever call fails is a typed error, and a backend opened afterwards works") {
  if (!has_shim()) return;
  static int calls = 0, due = -1;
  static bool memory = false;
  static BlasFunctions real;
  const auto tamper = [](BlasFunctions& f) {
    real = f;
    f.MatmulDescCreate = [](blas::Operation** o, blas::Compute c, blas::Type t) {
      return calls++ == due ? (memory ? blas::Status::alloc_failed : blas::Status::internal_error)
                            : real.MatmulDescCreate(o, c, t);
    };
    f.MatrixLayoutCreate = [](blas::Layout** l, blas::Type t, std::uint64_t r, std::uint64_t c, std::int64_t d) {
      return calls++ == due ? (memory ? blas::Status::alloc_failed : blas::Status::internal_error)
                            : real.MatrixLayoutCreate(l, t, r, c, d);
    };
    f.MatmulAlgoGetHeuristic = [](blas::Context* h, blas::Operation* o, blas::Layout* a, blas::Layout* b,
                                  blas::Layout* c, blas::Layout* d, blas::Preference* p, int n, blas::Heuristic* found,
                                  int* got) {
      return calls++ == due ? (memory ? blas::Status::alloc_failed : blas::Status::internal_error)
                            : real.MatmulAlgoGetHeuristic(h, o, a, b, c, d, p, n, found, got);
    };
  };
  set_blas_tamper(tamper);
  for (const bool of_memory : {false, true})
    for (int k = 0; k < 6; ++k) {  // one operation, three layouts, two searches
      CAPTURE(k);
      memory = of_memory;
      const auto cuda = make_backend("cuda");
      calls = 0;
      due = k;
      ErrorKind kind = ErrorKind::internal;
      try {
        product_on(*cuda, k_cases[0]);
      } catch (const Error& error) {
        kind = error.kind();
      }
      CHECK(kind == (of_memory ? ErrorKind::memory : ErrorKind::device));
      due = -1;
      CHECK(product_on(*cuda, k_cases[0]).at("y").elements() == 15);
    }
  set_blas_tamper(nullptr);
  CHECK(objects() == 0);
}

TEST_CASE("an algorithm that needs more workspace than there is, is not taken") {
  if (!has_shim()) return;
  setenv("UNROLL_SHIM_BLAS_WORKSPACE", std::to_string(k_blas_workspace + 1).c_str(), 1);
  const auto cuda = make_backend("cuda");
  const int before = *counted_products();
  CHECK(product_on(*cuda, k_cases[0]).at("y").elements() == 15);
  CHECK(*counted_products() == before);
  setenv("UNROLL_SHIM_BLAS_WORKSPACE", "4096", 1);
  CHECK(product_on(*cuda, k_cases[0], 2).at("y").elements() == 15);
  CHECK(*counted_products() > before);
  unsetenv("UNROLL_SHIM_BLAS_WORKSPACE");
}

}  // namespace test_cuda_blas
