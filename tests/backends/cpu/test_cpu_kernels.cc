// SPDX-License-Identifier: Apache-2.0
// Copies, reductions, indexing and sources of the cpu backend against plain loops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "core/support/philox.h"
#include "cpu_kernel_test.h"

using namespace unroll;
using namespace unroll::cpu;

namespace {

// Strides of memory laid out in some order of dimensions; `elements` is what the memory needs.
Strides random_strides(const Shape& shape, bool repeat, std::int64_t& elements) {
  std::vector<std::size_t> order(static_cast<std::size_t>(shape.rank()));
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (random_int(0, 2)) std::shuffle(order.begin(), order.end(), generator());
  else std::reverse(order.begin(), order.end());
  Strides strides{};
  elements = 1;
  for (const std::size_t axis : order) {
    if (repeat && random_int(0, 3) == 0) continue;
    strides[axis] = elements;
    elements *= std::max<std::int64_t>(1, shape[static_cast<int>(axis)]) + (random_int(0, 3) ? 0 : 1);
  }
  return strides;
}

template <class T>
void check_copy(const Shape& shape) {
  std::int64_t src_elements = 1, dst_elements = 1;
  const Strides src = random_strides(shape, true, src_elements), dst = random_strides(shape, false, dst_elements);
  const auto from = random_values<T>(src_elements, 0, 100);
  const auto start = random_values<T>(dst_elements, 0, 100);
  const Copy copy = make_copy(DTypeOf<T>::value, shape, src, dst);
  const auto got =
      run_with_every_pool(start, [&](const Worker& worker, T* out) { run_copy(copy, from.data(), out, worker); });
  auto wanted = start;
  for (std::int64_t e = 0; e < shape.elements(); ++e)
    wanted[static_cast<std::size_t>(offset(shape, dst, e))] = from[static_cast<std::size_t>(offset(shape, src, e))];
  CHECK_MESSAGE(got == wanted, shape.text());
}

template <class T>
void check_reduce(Op op, const Shape& shape, const Ints& axes) {
  const auto x = random_values<T>(shape.elements(), -9, 9);
  Shape kept = shape;
  for (const std::int64_t axis : axes) kept = kept.with(static_cast<int>(axis), 1);
  const Reduce reduce = make_reduce(op, {DTypeOf<T>::value, shape}, axes);
  const auto got = run_with_every_pool(
      std::vector<T>(static_cast<std::size_t>(kept.elements()), T{77}),
      [&](const Worker& worker, T* out, std::byte* scratch) { run_reduce(reduce, x.data(), out, scratch, worker); },
      [&](int parts) { return reduce_scratch_bytes(reduce, parts); });
  const Strides to = broadcast_strides(kept, shape);
  const bool sum = op == Op::reduce_sum;
  constexpr bool k_float = std::is_floating_point_v<T>;
  const double lowest = k_float ? -std::numeric_limits<double>::infinity() : double(std::numeric_limits<T>::lowest());
  std::vector<double> wanted(got.size(), sum ? 0 : lowest), magnitude(got.size(), 0);
  for (std::int64_t e = 0; e < shape.elements(); ++e) {
    const auto o = static_cast<std::size_t>(offset(shape, to, e));
    const double value = x[static_cast<std::size_t>(e)];
    wanted[o] = sum ? wanted[o] + value : std::max(wanted[o], value);
    magnitude[o] += std::abs(value);
  }
  // Longest chain of adds in T: 128 rows, or 8192 elements in 4 chains of at least 4 lanes (one, when scalar); the rest
  // is in double.
  const double chain = std::string(instruction_set()) == "SCALAR" ? 2100 : 600;
  const double bound = sum && k_float ? chain * static_cast<double>(std::numeric_limits<T>::epsilon()) : 0;
  for (std::size_t o = 0; o < got.size(); ++o)
    CHECK_MESSAGE((static_cast<double>(got[o]) == wanted[o] || std::abs(got[o] - wanted[o]) <= bound * magnitude[o]),
                  shape.text(), " -> ", kept.text());
}

}  // namespace

TEST_CASE("copies between any strides agree with a plain loop") {
  for_each_instruction_set([](bool best) {
    for (int i = 0; i < (best ? 400 : 60); ++i) {
      const int rank = static_cast<int>(random_int(0, 6));
      const Shape shape = random_shape(rank, rank < 3 ? 150 : rank < 5 ? 12 : 5);
      check_copy<float>(shape);
      check_copy<double>(shape);
      check_copy<std::uint8_t>(shape);
    }
  });
  check_copy<float>({20000});
}

TEST_CASE("fill writes every element and nothing else") {
  for (const std::int64_t n : {0, 1, 63, 1000}) {
    const auto got =
        run_with_every_pool(std::vector<double>(static_cast<std::size_t>(n) + 5, 1.0),
                            [&](const Worker& worker, double* out) { run_fill(DType::f64, 2.5, n, out, worker); });
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == (i < static_cast<std::size_t>(n) ? 2.5 : 1.0));
  }
}

TEST_CASE("reductions over any axes agree with a plain loop") {
  for_each_instruction_set([](bool best) {
    for (const Op op : {Op::reduce_sum, Op::reduce_max}) {
      for (int i = 0; i < (best ? 250 : 40); ++i) {
        const int rank = static_cast<int>(random_int(0, 6));
        const Shape shape = random_shape(rank, rank < 3 ? 300 : rank < 5 ? 14 : 5);
        Ints axes;
        for (int axis = 0; axis < rank; ++axis)
          if (random_int(0, 1)) axes.push_back(axis);
        check_reduce<float>(op, shape, axes);
        check_reduce<double>(op, shape, axes);
        check_reduce<std::int32_t>(op, shape, axes);
      }
      check_reduce<float>(op, {100000}, {0});
      check_reduce<float>(op, {3, 20000}, {1});
      check_reduce<float>(op, {2000, 600}, {0});
      check_reduce<float>(op, {3, 500, 9}, {1});
      check_reduce<float>(op, {40, 9, 50}, {0, 2});
    }
  });
}

TEST_CASE("an i32 sum wraps and a maximum keeps a NaN") {
  const std::vector<std::int32_t> big(3, std::numeric_limits<std::int32_t>::max());
  std::int32_t sum = 0;
  run_reduce(make_reduce(Op::reduce_sum, {DType::i32, {3}}, Ints{0}), big.data(), &sum, nullptr, Worker{});
  CHECK(sum == 0x7ffffffd);
  for (const std::int64_t n : {5, 40, 200})
    for (std::int64_t at = 0; at < n; at += 3) {
      auto x = random_values<float>(n * 20);
      x[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
      float largest = 0;
      run_reduce(make_reduce(Op::reduce_max, {DType::f32, {n}}, Ints{0}), x.data(), &largest, nullptr, Worker{});
      CHECK(std::isnan(largest));
      std::vector<float> columns(static_cast<std::size_t>(n));
      run_reduce(make_reduce(Op::reduce_max, {DType::f32, {20, n}}, Ints{0}), x.data(), columns.data(), nullptr,
                 Worker{});
      for (std::int64_t j = 0; j < n; ++j) CHECK(std::isnan(columns[static_cast<std::size_t>(j)]) == (j == at));
    }
}

TEST_CASE("argmax finds the first of the largest, and a NaN first of all") {
  for (int i = 0; i < 100; ++i) {
    const int rank = static_cast<int>(random_int(1, 4));
    Shape shape = random_shape(rank, 20);
    const int axis = static_cast<int>(random_int(0, rank - 1));
    if (shape[axis] == 0) shape = shape.with(axis, 3);
    auto x = random_values<float>(shape.elements(), 0, 5);
    for (auto& v : x) v = random_int(0, 30) ? std::floor(v) : std::numeric_limits<float>::quiet_NaN();
    const Argmax argmax = make_argmax({DType::f32, shape}, axis);
    const std::vector<std::int32_t> start(static_cast<std::size_t>(argmax.outer * argmax.inner), -1);
    const auto got = run_with_every_pool(
        start, [&](const Worker& worker, std::int32_t* out) { run_argmax(argmax, x.data(), out, worker); });
    for (std::int64_t e = 0; e < argmax.outer * argmax.inner; ++e) {
      const auto value = [&](std::int64_t k) {
        return x[static_cast<std::size_t>((e / argmax.inner * argmax.axis + k) * argmax.inner + e % argmax.inner)];
      };
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < argmax.axis; ++k)
        if (!std::isnan(value(best)) && (std::isnan(value(k)) || value(k) > value(best))) best = k;
      CHECK(got[static_cast<std::size_t>(e)] == best);
    }
  }
}

TEST_CASE("gather reads rows and scatter_add adds them in order; numbers out of range do nothing") {
  for (const std::int64_t row : {0, 1, 5, 64, 130}) {
    const std::int64_t rows = 11, n = 60;
    std::vector<std::int32_t> indices;
    for (std::int64_t i = 0; i < n; ++i) indices.push_back(static_cast<std::int32_t>(random_int(-2, rows + 1)));
    const auto in_range = [&](std::int64_t i) {
      const std::int32_t index = indices[static_cast<std::size_t>(i)];
      return index >= 0 && index < rows;
    };
    const auto table = random_values<float>(rows * row), updates = random_values<float>(n * row);
    const auto gathered = run_with_every_pool(
        std::vector<float>(static_cast<std::size_t>(n * row), 9),
        [&](const Worker& worker, float* out) {
          run_gather(indices.data(), n, rows, row * 4, table.data(), out, worker);
        });
    const auto scattered = run_with_every_pool(
        std::vector<float>(static_cast<std::size_t>(rows * row), 9), [&](const Worker& worker, float* out) {
          run_scatter_add(DType::f32, indices.data(), n, rows, row, updates.data(), out, worker);
        });
    std::vector<float> sums(static_cast<std::size_t>(rows * row));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < row; ++j) {
        const auto to = static_cast<std::size_t>(i * row + j);
        const auto from = static_cast<std::size_t>(in_range(i) ? indices[static_cast<std::size_t>(i)] * row + j : 0);
        CHECK(gathered[to] == (in_range(i) ? table[from] : 0.0f));
        if (in_range(i)) sums[from] += updates[to];
      }
    CHECK(scattered == sums);
  }
}

TEST_CASE("iota counts along its axis") {
  const Shape shape{3, 40, 5};
  for (int axis = 0; axis < 3; ++axis) {
    const auto got = run_with_every_pool(std::vector<std::int32_t>(600), [&](const Worker& worker, std::int32_t* out) {
      run_iota(shape, axis, out, worker);
    });
    for (int e = 0; e < 600; ++e)
      CHECK(got[static_cast<std::size_t>(e)] == (axis == 0 ? e / 200 : axis == 1 ? e / 5 % 40 : e % 5));
  }
}

TEST_CASE("Philox gives the published words") {
  // kat_vectors of Random123, philox4x32 with 10 rounds
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) == PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random_uniform is Philox by element, with and without a step") {
  const std::int32_t key[] = {-5, 77, 123456};
  const auto check = [&](std::int64_t n, std::int32_t step) {
    const auto got = run_with_every_pool(
        std::vector<float>(static_cast<std::size_t>(n)),
        [&](const Worker& worker, float* out) {
          run_random_uniform(key, step < 0 ? nullptr : &step, 42, n, out, worker);
        });
    for (std::int64_t e = 0; e < n; ++e) {
      const auto index = static_cast<std::uint64_t>(std::max(step, 0) * n + e);
      const auto words =
          philox({static_cast<std::uint32_t>(index / 4), static_cast<std::uint32_t>(index / 4 >> 32), 42, 123456},
                 {static_cast<std::uint32_t>(-5), 77});
      CHECK(got[static_cast<std::size_t>(e)] == philox_uniform(words[index % 4]));
    }
  };
  for_each_instruction_set([&](bool) {
    for (const std::int64_t n : {0, 1, 3, 6, 64, 1001})
      for (const std::int32_t step : {-1, 0, 1, 7, 2000000000}) check(n, step);
  });
}
