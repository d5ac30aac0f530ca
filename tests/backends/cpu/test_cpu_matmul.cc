// SPDX-License-Identifier: Apache-2.0
// Products of the cpu backend against a plain loop in double precision.
#include <cmath>
#include <limits>
#include <string>

#include "tests/backends/cpu/cpu_matmul_test.h"

using namespace unroll;
using namespace unroll::cpu;

namespace {

// |error| <= (k + 2) u sum |a b|, u the unit roundoff: the bound of any order of summation.
template <class T>
void check_close(T got, double sum, double magnitude, std::int64_t k, const std::string& what) {
  const double bound = (static_cast<double>(k) + 2) * std::numeric_limits<T>::epsilon() * magnitude;
  CHECK_MESSAGE(std::abs(static_cast<double>(got) - sum) <= bound, what);
}

struct Sizes {
  std::int64_t batch, m, n, k;
};

template <class T>
void check_product(const Sizes& s, bool ta, bool tb, bool batched_b) {
  const DType dtype = DTypeOf<T>::value;
  const Type a_type = matrix(dtype, s.batch, s.m, s.k, ta);
  const Type b_type = matrix(dtype, batched_b ? s.batch : -1, s.k, s.n, tb);
  const Matmul mm = make_matmul(a_type, b_type, ta, tb);
  const auto a = random_values<T>(a_type.shape.elements());
  const auto b = random_values<T>(b_type.shape.elements());
  const std::int64_t batch = s.batch < 0 ? 1 : s.batch;
  const std::vector<T> start(static_cast<std::size_t>(batch * s.m * s.n), std::numeric_limits<T>::quiet_NaN());
  const auto c = run_with_every_pool(
      start,
      [&](const Worker& worker, T* out, std::byte* scratch) {
        run_matmul(mm, a.data(), b.data(), out, scratch, worker);
      },
      [&](int parts) { return matmul_scratch_bytes(mm, parts); });
  const std::string what = a_type.text() + " x " + b_type.text() + (ta ? " ta" : "") + (tb ? " tb" : "");
  const std::int64_t step = 1 + batch * s.m * s.n / 3000;  // big results are sampled
  for (std::int64_t e = 0; e < batch * s.m * s.n; e += step) {
    const std::int64_t z = e / (s.m * s.n), i = e / s.n % s.m, j = e % s.n;
    double sum = 0, magnitude = 0;
    for (std::int64_t x = 0; x < s.k; ++x) {
      const double av = a[static_cast<std::size_t>(z * s.m * s.k + (ta ? x * s.m + i : i * s.k + x))];
      const double bv = b[static_cast<std::size_t>((batched_b ? z : 0) * s.k * s.n + (tb ? j * s.k + x : x * s.n + j))];
      sum += av * bv;
      magnitude += std::abs(av * bv);
    }
    check_close(c[static_cast<std::size_t>(e)], sum, magnitude, s.k, what);
  }
}

}  // namespace

TEST_CASE("products of every size and transposition agree with a plain loop") {
  const Sizes sizes[] = {
      {-1, 1, 1, 1},      {-1, 0, 5, 3},       {-1, 5, 0, 3},     {-1, 5, 4, 0},    {-1, 1, 100, 70}, {-1, 2, 33, 700},
      {-1, 3, 70, 19},    {-1, 4, 130, 40},    {-1, 100, 1, 300}, {-1, 300, 2, 50}, {-1, 13, 31, 17}, {-1, 32, 256, 64},
      {-1, 130, 65, 900}, {-1, 300, 1100, 40}, {-1, 67, 1200, 3}, {1, 5, 6, 7},     {3, 1, 40, 20},   {5, 20, 30, 33},
      {2, 70, 40, 400},   {7, 1, 1, 64},       {0, 3, 3, 3},      {4, 9, 1, 50},    {-1, 30, 8300, 20}};
  for_each_instruction_set([&](bool) {
    for (const auto& s : sizes)
      for (int flags = 0; flags < 8; ++flags) {
        check_product<float>(s, flags & 1, flags & 2, flags & 4 && s.batch >= 0);
        if (s.m * s.n * s.k < 1000000) check_product<double>(s, flags & 1, flags & 2, flags & 4 && s.batch >= 0);
      }
  });
}

TEST_CASE("random products agree with a plain loop") {
  for (int i = 0; i < 60; ++i) {
    const Sizes s{random_int(0, 2) ? -1 : random_int(1, 6), random_int(1, 80), random_int(1, 80), random_int(1, 500)};
    check_product<float>(s, random_int(0, 1), random_int(0, 1), random_int(0, 1) && s.batch >= 0);
    check_product<double>(s, random_int(0, 1), random_int(0, 1), random_int(0, 1) && s.batch >= 0);
  }
}

TEST_CASE("leading dimensions broadcast") {
  // a [2, 1, 3, 4] x b [5, 4, 6] -> [2, 5, 3, 6]
  const Type a_type{DType::f32, {2, 1, 3, 4}}, b_type{DType::f32, {5, 4, 6}};
  const Matmul mm = make_matmul(a_type, b_type, false, false);
  CHECK(mm.batch == Shape{2, 5});
  const auto a = random_values<float>(24), b = random_values<float>(120);
  const auto c = run_with_every_pool(
      std::vector<float>(180),
      [&](const Worker& worker, float* out, std::byte* scratch) {
        run_matmul(mm, a.data(), b.data(), out, scratch, worker);
      },
      [&](int parts) { return matmul_scratch_bytes(mm, parts); });
  for (std::size_t e = 0; e < 180; ++e) {
    const std::size_t x = e / 90, y = e / 18 % 5, i = e / 6 % 3, j = e % 6;
    double sum = 0;
    for (std::size_t k = 0; k < 4; ++k) sum += double{a[x * 12 + i * 4 + k]} * double{b[y * 24 + k * 6 + j]};
    check_close(c[e], sum, 4, 4, "broadcast");
  }
}

TEST_CASE("a packed b with row strides agrees with a plain loop") {
  for (int i = 0; i < 60; ++i) {
    const std::int64_t m = random_int(0, 3) ? random_int(1, 40) : random_int(100, 300);
    const std::int64_t n = random_int(1, 200), k = random_int(0, 9) ? random_int(1, 120) : random_int(380, 900);
    const bool tb = random_int(0, 1);
    Matmul mm = make_matmul({DType::f32, {m, k}}, matrix(DType::f32, -1, k, n, tb), false, tb);
    mm.a_stride = k + random_int(0, 9);
    mm.b_stride += random_int(0, 9);
    mm.c_stride = n + random_int(0, 9);
    const auto a = random_values<float>(m * mm.a_stride), b = random_values<float>((tb ? n : k) * mm.b_stride);
    const auto start = random_values<float>(m * mm.c_stride);
    const std::size_t bytes = packed_bytes(mm);
    const auto c = run_with_every_pool(
        start,
        [&](const Worker& worker, float* out, std::byte* packed) {
          run_pack(mm, b.data(), packed, worker);
          worker.sync();
          run_packed(mm, a.data(), packed, out, worker);
        },
        [&](int) { return bytes; });
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t j = 0; j < mm.c_stride; ++j) {
        const auto e = static_cast<std::size_t>(r * mm.c_stride + j);
        if (j >= n) {
          CHECK(c[e] == start[e]);
          continue;
        }
        double sum = 0, magnitude = 0;
        for (std::int64_t x = 0; x < k; ++x) {
          const double product = double{a[static_cast<std::size_t>(r * mm.a_stride + x)]} *
                                 double{b[static_cast<std::size_t>(tb ? j * mm.b_stride + x : x * mm.b_stride + j)]};
          sum += product;
          magnitude += std::abs(product);
        }
        check_close(c[e], sum, magnitude, k, "packed");
      }
  }
}

TEST_CASE("columns packed by worker give the bits of the whole product") {
  const std::int64_t m = 5, k = 70, group = 37, groups = 3;
  for (const bool transposed : {false, true}) {
    const Type a_type = matrix(DType::f32, -1, m, k, false),
               b_type = matrix(DType::f32, -1, k, groups * group, transposed);
    const Matmul mm = make_matmul(a_type, b_type, false, transposed);
    const auto a = random_values<float>(m * k), b = random_values<float>(k * groups * group);
    Bytes packed(packed_bytes(mm));
    std::vector<float> whole(static_cast<std::size_t>(m * groups * group));
    run_pack(mm, b.data(), packed.data(), Worker{});
    run_packed(mm, a.data(), packed.data(), whole.data(), Worker{});
    check_packed_columns(mm, a.data(), b.data(), groups, whole);
  }
}

// An epilogue over several gates relies on it.
TEST_CASE("parts share a stored column of a as they share a row") {
  for (const std::int64_t n : {2, 5, 40, 700})
    for (const std::int64_t k : {1, 5, 300})
      for (const bool tb : {false, true})
        for (const int parts : {1, 2, 3}) {
          INFO(n, " columns, ", k, " terms, b ", tb ? "transposed, " : "plain, ", parts, " parts");
          const Type b = matrix(DType::f32, -1, k, n, tb);
          const Matmul row = make_matmul(matrix(DType::f32, -1, 1, k, false), b, false, tb);
          const Matmul column = make_matmul(matrix(DType::f32, -1, 1, k, true), b, true, tb);
          CHECK(computes_whole_rows(column, parts) == computes_whole_rows(row, parts));
        }
}

TEST_CASE("NaN and infinity reach exactly their row or column, and zeros are multiplied too") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{3, 37, 20}, {50, 37, 20}, {1, 5, 8}, {200, 45, 30}})
    for (int flags = 0; flags < 4; ++flags) {
      const bool ta = flags & 1, tb = flags & 2;
      const Matmul mm = make_matmul(matrix(DType::f32, -1, m, k, ta), matrix(DType::f32, -1, k, n, tb), ta, tb);
      std::vector<float> a(static_cast<std::size_t>(m * k), 0.0f), b(static_cast<std::size_t>(k * n), 1.0f);
      const std::int64_t column = n - 1, row = m - 1;
      b[static_cast<std::size_t>(tb ? column * k + 2 : 2 * n + column)] = nan;         // 0 * NaN
      b[static_cast<std::size_t>(tb ? 1 * k + 3 : 3 * n + 1)] = infinity;              // 0 * inf
      a[static_cast<std::size_t>(ta ? (k - 1) * m + row : row * k + k - 1)] = infinity;  // inf * 1
      const auto c = run_with_every_pool(
          std::vector<float>(static_cast<std::size_t>(m * n)),
          [&](const Worker& worker, float* out, std::byte* scratch) {
            run_matmul(mm, a.data(), b.data(), out, scratch, worker);
          },
          [&](int parts) { return matmul_scratch_bytes(mm, parts); });
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          const float value = c[static_cast<std::size_t>(i * n + j)];
          if (j == column || j == 1) CHECK(std::isnan(value));
          else if (i == row) CHECK(value == infinity);
          else CHECK(value == 0.0f);
        }
    }
}
