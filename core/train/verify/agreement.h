// SPDX-License-Identifier: Apache-2.0
// Tolerances for results of many steps of arithmetic. They apply to norms, because steps propagate the errors of single
// elements. docs/numerics.md derives them.
#pragma once

#include <cstdint>
#include <string>

#include "unroll/passes/run.h"
#include "unroll/train/compare.h"

namespace unroll {

// The computation that a result belongs to.
struct Work {
  std::int64_t terms = 1;    // longest sum in a step, times the number of steps
  bool backward = false;
  std::int64_t updates = 0;  // that it has gone through
  Precision precision = Precision::f32;
};
// The relative L2 norm that rounding may reach: 4 (2 if backward) (1 + updates) ceil(log2 terms) s, s being the unit
// roundoff of what products are made of. Elements may be 16 times as far off as that part of the largest one.
double allowed_distance(const Work& work, DType dtype);
// Longest sum times steps of a graph without composites.
std::int64_t terms_of_graph(const Graph& graph);

struct Distance {
  double relative = 0;  // L2, or a 16th of the largest error by the largest element where that is more; infinite where
                        // one of two numbers is not finite
  std::string worst;
};
Distance distance(const Tensor& got, const Tensor& wanted, std::int64_t elements = -1);

// A model may make more of rounding than this: so many times what f32 in the place of f64 does to the standard is fine.
inline constexpr double k_measured_slack = 8;

}  // namespace unroll
