// SPDX-License-Identifier: Apache-2.0
// Timing of kernels for the machine model: each result is the minimum of many short runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "backends/common/host_buffer.h"

namespace unroll::cpu {

inline double nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// Time of one call: the minimum over several rounds, each long enough for the clock's resolution.
template <class F>
double least_ns(F&& call) {
  constexpr double k_round_ns = 20e3, k_all_ns = 2.5e6;
  constexpr int k_fewest = 4;
  call();
  double calls = 1, least = 0, spent = 0;
  for (int round = 0; round < k_fewest || spent < k_all_ns; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (double i = 0; i < calls; ++i) call();
    const double ns = nanoseconds_since(start);
    spent += ns;
    if (ns < k_round_ns && calls < 1e6) {
      calls *= 2;
      round = -1;
      continue;
    }
    least = least == 0 ? ns / calls : std::min(least, ns / calls);
  }
  return least;
}

// An array of floats that are neither zero nor large.
class Floats {
 public:
  explicit Floats(std::int64_t n) : bytes_(n * sizeof(float)) {
    auto* at = data();
    for (std::int64_t i = 0; i < n; ++i) at[i] = 0.25f + 0.001f * static_cast<float>(i % 257);
  }
  float* data() { return reinterpret_cast<float*>(bytes_.data()); }
  const float* data() const { return reinterpret_cast<const float*>(bytes_.data()); }

 private:
  Bytes bytes_;
};

}  // namespace unroll::cpu
