// SPDX-License-Identifier: Apache-2.0
// Products of 16-bit operands against a plain loop in double precision: converted to f32 on every instruction set, in
// pairs as processors with AVX512_BF16 add them up, and in tiles as processors with AMX do.
#include <cmath>
#include <string>

#include "backends/cpu/gemm/gemm.h"
#include "core/support/formats.h"
#include "tests/backends/cpu/cpu_matmul_test.h"

namespace test_cpu_halves {

using namespace unroll;
using namespace unroll::cpu;

namespace {

struct Sizes {
  std::int64_t batch, m, n, k;
};

// Restores the kernels of the processor.
struct Products {
  bool on;
  explicit Products(Bf16Products way) : on(use_bf16_products(way)) {}
  ~Products() { use_bf16_products(Bf16Products::best); }
};

struct Way {
  Bf16Products products;
  const char *name, *needs;
};
constexpr Way k_ways[] = {{Bf16Products::converted, "converted to f32", "nothing"},
                          {Bf16Products::pairs, "pairs", "AVX512_BF16"},
                          {Bf16Products::emulated_pairs, "pairs, emulated", "AVX-512"},
                          {Bf16Products::tiles, "tiles", "AMX and a kernel that permits it"},
                          {Bf16Products::emulated_tiles, "tiles, emulated", "AVX-512"}};

// Calls check(way) with the products of each way that this processor has.
template <class Check>
void for_each_way(Check&& check) {
  int skipped = 0;
  for (const Way& way : k_ways) {
    const Products products(way.products);
    CAPTURE(way.name);
    if (products.on) check(way);
    else MESSAGE("skipped, ", ++skipped, " of ", std::size(k_ways), " ways: ", way.name, " (", way.needs, ")");
  }
}

Tensor random_halves(DType dtype, std::int64_t n) {
  Tensor t(dtype, Shape{n});
  const auto values = random_values<double>(n);
  for (std::int64_t i = 0; i < n; ++i) t.set(i, values[static_cast<std::size_t>(i)]);
  return t;
}

// |error| <= (k + 2) u sum |a b|, u = 2^-24: the bound of any order of summation in f32; stored in 16 bits half a unit
// in the last place more.
void check_element(DType result, double got, double sum, double magnitude, std::int64_t k, const std::string& what) {
  const double stored = result == DType::bf16 ? 0x1p-8 : result == DType::f16 ? 0x1p-11 : 0;
  const double bound = (static_cast<double>(k) + 2) * 0x1p-23 * magnitude;
  if (!(std::abs(got - sum) <= bound + stored * (std::abs(sum) + bound))) FAIL_CHECK(what);  // millions of elements
}

template <class T>
void check_product(DType dtype, const Sizes& s, bool ta, bool tb) {
  const Type a_type = matrix(dtype, s.batch, s.m, s.k, ta), b_type = matrix(dtype, s.batch, s.k, s.n, tb);
  Matmul mm = make_matmul(a_type, b_type, ta, tb);
  mm.result = DTypeOf<T>::value;
  const Tensor a = random_halves(dtype, a_type.shape.elements()), b = random_halves(dtype, b_type.shape.elements());
  const std::int64_t batch = s.batch < 0 ? 1 : s.batch, n = batch * s.m * s.n;
  const auto c = run_with_every_pool(
      std::vector<T>(static_cast<std::size_t>(n)),
      [&](const Worker& worker, T* out, std::byte* scratch) {
        run_matmul(mm, a.bytes().data(), b.bytes().data(), out, scratch, worker);
      },
      [&](int parts) { return matmul_scratch_bytes(mm, parts); });
  Tensor results(mm.result, Shape{n});
  if (n > 0) std::memcpy(results.bytes().data(), c.data(), results.bytes().size());
  const std::string what = a_type.text() + " x " + b_type.text() + (ta ? " ta" : "") + (tb ? " tb" : "");
  for (std::int64_t e = 0; e < n; e += 1 + n / 2000) {  // big results are sampled
    const std::int64_t z = e / (s.m * s.n), i = e / s.n % s.m, j = e % s.n;
    double sum = 0, magnitude = 0;
    for (std::int64_t x = 0; x < s.k; ++x) {
      const double product = a.at(z * s.m * s.k + (ta ? x * s.m + i : i * s.k + x)) *
                             b.at(z * s.k * s.n + (tb ? j * s.k + x : x * s.n + j));
      sum += product;
      magnitude += std::abs(product);
    }
    check_element(mm.result, results.at(e), sum, magnitude, s.k, what);
  }
}

constexpr Sizes k_sizes[] = {{-1, 1, 1, 1},      {-1, 0, 5, 3},       {-1, 5, 0, 3},    {-1, 5, 4, 0},
                             {-1, 1, 100, 71},   {-1, 13, 31, 17},    {-1, 100, 1, 30}, {-1, 32, 256, 64},
                             {-1, 130, 65, 1023}, {-1, 300, 1100, 40}, {3, 7, 40, 21},   {2, 70, 40, 401}};

void check_products(DType dtype) {
  for (const auto& s : k_sizes)
    for (int flags = 0; flags < 4; ++flags) {
      check_product<float>(dtype, s, flags & 1, flags & 2);
      if (dtype == DType::bf16) check_product<Bf16>(dtype, s, flags & 1, flags & 2);
      else check_product<F16>(dtype, s, flags & 1, flags & 2);
    }
}

// A product by weights that are packed whole, or by columns of each part.
void check_packed(DType dtype, std::int64_t m, std::int64_t k, bool transposed) {
  const std::int64_t group = 37, groups = 3, n = groups * group;
  const Matmul mm = make_matmul(matrix(dtype, -1, m, k, false), matrix(dtype, -1, k, n, transposed), false, transposed);
  const Tensor a = random_halves(dtype, m * k), b = random_halves(dtype, k * n);
  Bytes packed(packed_bytes(mm)), scratch(4 * packed_scratch_bytes(mm));
  run_pack(mm, b.bytes().data(), packed.data(), Worker{});
  const auto whole = run_with_every_pool(
      std::vector<float>(static_cast<std::size_t>(m * n)), [&](const Worker& worker, float* out) {
        std::byte* own = scratch.data() + static_cast<std::size_t>(worker.index) * packed_scratch_bytes(mm);
        run_packed(mm, a.bytes().data(), packed.data(), out, worker, own);
      });
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t x = 0; x < k; ++x) {
        const double product = a.at(i * k + x) * b.at(transposed ? j * k + x : x * n + j);
        sum += product;
        magnitude += std::abs(product);
      }
      check_element(DType::f32, whole[static_cast<std::size_t>(i * n + j)], sum, magnitude, k, "packed");
    }
  check_packed_columns(mm, a.bytes().data(), b.bytes().data(), groups, whole);
}

}  // namespace

TEST_CASE("products of 16-bit operands agree with a plain loop, in f32 and stored in 16 bits") {
  for_each_instruction_set([&](bool) {
    check_products(DType::bf16);
    check_products(DType::f16);
  });
}

TEST_CASE("16-bit weights that are packed once give the same bits whole and by columns") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t k : {1, 70, 71, 801})
      for (const bool transposed : {false, true}) check_packed(dtype, 5, k, transposed);
}

TEST_CASE("products of bf16 agree with a plain loop whatever way they take") {
  for_each_way([](const Way&) {
    check_products(DType::bf16);
    for (const std::int64_t k : {1, 31, 32, 70, 71, 801, 1025})
      for (const std::int64_t m : {1, 5, 16, 17, 32, 47, 130})
        for (const bool transposed : {false, true}) check_packed(DType::bf16, m, k, transposed);
  });
}

TEST_CASE("what lies behind a row's last number in memory counts for nothing") {
  for_each_way([](const Way&) {
    for (const std::int64_t k : {5, 31, 33, 45}) {
      const std::int64_t m = 3, n = 4, stride = (k + 31) / 32 * 32 + (k == 33 ? 1 : 0);
      Matmul mm = make_matmul({DType::bf16, {m, k}}, {DType::bf16, {k, n}}, false, false);
      mm.a_stride = stride;
      Tensor a(DType::bf16, Shape{m * stride}), b = Tensor::filled({DType::bf16, Shape{k * n}}, 1);
      for (std::int64_t i = 0; i < a.elements(); ++i) a.set(i, i % stride < k ? 2 : NAN);
      std::vector<float> c(m * n);
      Bytes scratch(matmul_scratch_bytes(mm, 1));
      run_matmul(mm, a.bytes().data(), b.bytes().data(), c.data(), scratch.data(), Worker{});
      for (const float x : c) CHECK(x == 2 * static_cast<float>(k));
    }
  });
}

TEST_CASE("emulated tiles give the bits of the processor's") {
  const std::int64_t m = 37, k = 75, n = 50;
  const Matmul mm = make_matmul({DType::bf16, {m, k}}, {DType::bf16, {k, n}}, false, false);
  const Tensor a = random_halves(DType::bf16, m * k), b = random_halves(DType::bf16, k * n);
  const auto product = [&] {
    std::vector<float> c(static_cast<std::size_t>(m * n));
    Bytes scratch(matmul_scratch_bytes(mm, 1));
    run_matmul(mm, a.bytes().data(), b.bytes().data(), c.data(), scratch.data(), Worker{});
    return c;
  };
  const Products tiles(Bf16Products::tiles);
  if (!tiles.on) {
    MESSAGE("skipped: no AMX");
    return;
  }
  const auto own = product();
  REQUIRE(use_bf16_products(Bf16Products::emulated_tiles));
  CHECK(product() == own);
}

}  // namespace test_cpu_halves
