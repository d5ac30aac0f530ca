// SPDX-License-Identifier: Apache-2.0
// What the tests of the cpu kernels share: random values and running a kernel with pools of 1 to 4 threads.
#pragma once

#include "backends/cpu/kernels/targets.h"

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "unroll/support/tensor.h"

namespace unroll::cpu {

inline std::mt19937& generator() {
  static std::mt19937 g(20240607);
  return g;
}
inline std::int64_t random_int(std::int64_t low, std::int64_t high) {  // both included
  return std::uniform_int_distribution<std::int64_t>(low, high)(generator());
}
template <class T>
std::vector<T> random_values(std::int64_t n, double low = -1, double high = 1) {
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (auto& v : values) v = static_cast<T>(distribution(generator()));
  return values;
}

// Dimensions from 0 (rarely) to `most`, ones often.
inline Shape random_shape(int rank, std::int64_t most) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t kind = random_int(0, 19);
    dims.push_back(kind == 0 ? 0 : kind < 5 ? 1 : random_int(2, most));
  }
  return Shape(std::span<const std::int64_t>(dims));
}

// Place in memory of an element that is counted in the order of the shape.
inline std::int64_t offset(const Shape& shape, const Strides& strides, std::int64_t element) {
  std::int64_t sum = 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    sum += element % shape[axis] * strides[static_cast<std::size_t>(axis)];
    element /= shape[axis];
  }
  return sum;
}

// Calls f(is_best) with each instruction set of this machine, the best first.
template <class F>
void for_each_instruction_set(F f) {
  const std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  for (std::int64_t left = all; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().DeInit();
    f(left == all);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

inline ThreadPool& pool_of(int n) {
  static std::array<std::unique_ptr<ThreadPool>, 5> pools;
  auto& pool = pools[static_cast<std::size_t>(n)];
  if (!pool) pool = std::make_unique<ThreadPool>(n);
  return *pool;
}

// What kernel(part, out, scratch) leaves in `out`, which starts as `start`; checks that 1, 2, 3 and 4 threads leave the
// same bits. scratch_bytes(parts) sizes the scratch.
template <class T, class Kernel, class ScratchBytes>
std::vector<T> run_with_every_pool(const std::vector<T>& start, Kernel kernel, ScratchBytes scratch_bytes) {
  std::vector<T> first;
  for (int n = 1; n <= 4; ++n) {
    std::vector<T> out = start;
    Bytes scratch(scratch_bytes(n));
    pool_of(n).run([&](const Worker& worker) { kernel(worker, out.data(), scratch.data()); });
    if (n == 1) {
      first = out;
    } else {
      CHECK_MESSAGE((out.empty() || std::memcmp(first.data(), out.data(), out.size() * sizeof(T)) == 0), n, " threads");
    }
  }
  return first;
}
template <class T, class Kernel>
std::vector<T> run_with_every_pool(const std::vector<T>& start, Kernel kernel) {
  return run_with_every_pool(
      start, [&](const Worker& worker, T* out, std::byte*) { kernel(worker, out); },
      [](int) { return std::size_t{0}; });
}

}  // namespace unroll::cpu
