// SPDX-License-Identifier: Apache-2.0
// Large products of the cpu backend by OpenBLAS, where this machine has it, and what is said where it is not.
#include <cmath>
#include <limits>
#include <string>

#include "backends/cpu/gemm/openblas.h"
#include "tests/backends/cpu/cpu_matmul_test.h"
#include "tests/support/compare.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;
using namespace unroll::cpu;

namespace {

const OpenBlas* opened() {
  try {
    return &open_blas();
  } catch (const Error& error) {
    MESSAGE("not tested: ", error.what());
    return nullptr;
  }
}

void check_refused(const std::string& file, const std::string& worker) {
  CAPTURE(file);
  try {
    open_blas(file);
    FAIL("must throw: ", worker);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::device);
    CHECK_MESSAGE(std::string(e.what()).find(worker) != std::string::npos, e.what());
    CHECK(std::string(e.what()).find("libopenblas0-pthread") != std::string::npos);
  }
}

std::string bad(const std::string& name) { return UNROLL_BAD_LIBRARIES "/libopenblas_" + name + ".so"; }

struct Sizes {
  std::int64_t m, n, k;
};

// Elements of c = a b, sampled, each within the bound of any order of summation: (k + 2) u sum |a b|.
void check_product(const OpenBlas& blas, const Sizes& s, bool ta, bool tb, std::int64_t skew) {
  CAPTURE(s.m);
  CAPTURE(s.n);
  CAPTURE(s.k);
  CAPTURE(ta);
  CAPTURE(tb);
  Matmul mm = make_matmul(matrix(DType::f32, -1, s.m, s.k, ta), matrix(DType::f32, -1, s.k, s.n, tb), ta, tb);
  mm.a_stride += skew;
  mm.b_stride += 2 * skew;
  mm.c_stride += 3 * skew;
  const auto a = random_values<float>((ta ? s.k : s.m) * mm.a_stride);
  const auto b = random_values<float>((tb ? s.n : s.k) * mm.b_stride);
  const float untouched = 7;
  const auto c = run_with_every_pool(std::vector<float>(static_cast<std::size_t>(s.m * mm.c_stride), untouched),
                                     [&](const Worker& worker, float* out) {
                                       run_openblas(blas, mm, a.data(), b.data(), out, worker);
                                     });
  const std::int64_t step = 1 + s.m * s.n / 2000;
  int wrong = 0;
  for (std::int64_t e = 0; e < s.m * s.n; e += step) {
    const std::int64_t i = e / s.n, j = e % s.n;
    double sum = 0, magnitude = 0;
    for (std::int64_t x = 0; x < s.k; ++x) {
      const double av = a[static_cast<std::size_t>(ta ? x * mm.a_stride + i : i * mm.a_stride + x)];
      const double bv = b[static_cast<std::size_t>(tb ? j * mm.b_stride + x : x * mm.b_stride + j)];
      sum += av * bv;
      magnitude += std::abs(av * bv);
    }
    const double bound = (static_cast<double>(s.k) + 2) * std::numeric_limits<float>::epsilon() * magnitude;
    wrong += !(std::abs(c[static_cast<std::size_t>(i * mm.c_stride + j)] - sum) <= bound);
  }
  CHECK(wrong == 0);
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = s.n; j < mm.c_stride; ++j)
      wrong += c[static_cast<std::size_t>(i * mm.c_stride + j)] != untouched;
  CHECK(wrong == 0);
}

// c = a b of a plan on a backend of this name.
Tensor multiplied(const std::string& backend, int threads, const TensorMap& inputs, const Sizes& s) {
  Graph graph;
  const Value a = graph.input("a", {DType::f32, {s.m, s.k}}), b = graph.input("b", {DType::f32, {s.k, s.n}});
  graph.output("c", matmul(a, b));
  const auto on = make_backend(backend, {.threads = threads});
  return evaluate(graph, *on, inputs).at("c");
}

Tensor random_matrix(std::int64_t rows, std::int64_t columns) {
  Tensor t(Type{DType::f32, {rows, columns}});
  const auto values = random_values<float>(rows * columns);
  std::memcpy(t.bytes().data(), values.data(), t.bytes().size());
  return t;
}

}  // namespace

TEST_CASE("a library that cannot be used is refused with the reason and what to install") {
  check_refused("/nonexistent/libopenblas.so.0", "cannot be opened");
  check_refused(UNROLL_SOURCES "/meson.build", "cannot be opened");
  check_refused("libm.so.6", "has no openblas_get_config");
  check_refused(bad("without_sgemm"), "has no cblas_sgemm");
  check_refused(bad("too_old"), "needs version 0.3.13 or later; got 'OpenBLAS 0.3.12'");
  check_refused(bad("without_version"), "needs version 0.3.13 or later; got 'NO_LAPACKE DYNAMIC_ARCH'");
  check_refused(bad("other_sizes"), "its sizes have 64 bits");
  check_refused(bad("without_threads"), "built without threads");
  check_refused(bad("with_openmp"), "built with OpenMP");
}

TEST_CASE("products of OpenBLAS agree with a plain loop, transposed and strided, with the same bits in every pool") {
  const OpenBlas* blas = opened();
  if (!blas) return;
  for (const Sizes& s : {Sizes{1, 1, 1}, {128, 128, 4096}, {130, 1100, 70}, {1500, 37, 130}, {512, 1024, 128},
                         {2100, 650, 128}, {33, 9001, 17}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const std::int64_t skew : {0, 5}) check_product(*blas, s, ta, tb, skew);
}

TEST_CASE("which products OpenBLAS takes depends on dtype and shape: large single ones of f32") {
  const auto taken = [](DType dtype, const Shape& a, const Shape& b) {
    return is_for_openblas(make_matmul({dtype, a}, {dtype, b}, false, false));
  };
  CHECK(taken(DType::f32, {1024, 1024}, {1024, 1024}));
  CHECK(taken(DType::f32, {8, 128, 1024}, {1024, 1024}));  // one product of 1024 rows
  CHECK_FALSE(taken(DType::f64, {1024, 1024}, {1024, 1024}));
  CHECK_FALSE(taken(DType::bf16, {1024, 1024}, {1024, 1024}));
  CHECK_FALSE(taken(DType::f32, {1023, 1024}, {1024, 1024}));
  CHECK_FALSE(taken(DType::f32, {100, 4096}, {4096, 4096}));  // few rows
  CHECK_FALSE(taken(DType::f32, {4, 1024, 1024}, {4, 1024, 1024}));
  CHECK_FALSE(taken(DType::f32, {0, 1024}, {1024, 1024}));
}

TEST_CASE("the backend cpu:openblas gives the same bits with any number of threads and in every run") {
  if (!opened()) {
    CHECK_THROWS_AS(make_backend("cpu:openblas"), Error);
    return;
  }
  const Sizes s{1024, 1300, 820};
  const TensorMap inputs{{"a", random_matrix(s.m, s.k)}, {"b", random_matrix(s.k, s.n)}};
  const Tensor once = multiplied("cpu:openblas", 1, inputs, s);
  for (int threads = 1; threads <= 4; ++threads) CHECK(same_bits(multiplied("cpu:openblas", threads, inputs, s), once));
  // Another user of the library in this process may ask for more threads.
  open_blas().set_num_threads(2);
  CHECK(same_bits(multiplied("cpu:openblas", 3, inputs, s), once));
  CHECK(open_blas().get_num_threads() == 1);
}

TEST_CASE("OpenBLAS is used only where it was asked for, and is named by device and report") {
  if (!opened()) return;
  Graph graph;
  const Value a = graph.input("a", {DType::f32, {1024, 1024}}), b = graph.input("b", {DType::f32, {1024, 1024}});
  graph.output("c", matmul(a, b));
  for (const std::string name : {"cpu", "cpu:own", "cpu:openblas"}) {
    CAPTURE(name);
    const bool asked = name == "cpu:openblas";
    const auto backend = make_backend(name, {.threads = 2});
    CHECK((backend->describe().device.find("OpenBLAS " + open_blas().release) != std::string::npos) == asked);
    const auto executable = backend->compile(plan(graph, *backend));
    REQUIRE(executable->report().size() == 1);
    CHECK(executable->report()[0].implementation == (asked ? "matmul by OpenBLAS" : "matmul"));
  }
}
