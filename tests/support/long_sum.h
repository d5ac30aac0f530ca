// SPDX-License-Identifier: Apache-2.0
// A product whose rounding errors tell how many terms are added up one after the other.
#pragma once

#include <algorithm>
#include <cmath>

#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll::testing {

// The error of a product of k terms relative to that of chains of 1,024 terms whose sums are added up: at most 1 is
// right. Each term but the first is 1.4 times the distance of numbers near 1, so in one chain its rounding error is
// always the same, 0.4 of that distance.
inline double long_sum_error(Backend& backend, std::int64_t k) {
  constexpr std::int64_t chain = 1024;
  const std::int64_t blocks = (k + chain - 1) / chain;
  Graph graph;
  const Value a = graph.input("a", {DType::f32, {1, k}}), b = graph.input("b", {DType::f32, {k, 3}});
  graph.output("y", matmul(a, b));
  Tensor terms(Type{DType::f32, {1, k}}), ones(Type{DType::f32, {k, 3}});
  double wanted = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    terms.set(i, i == 0 ? 1 : 1.4 * 0x1p-23);
    wanted += terms.at(i);
    for (std::int64_t j = 0; j < 3; ++j) ones.set(i * 3 + j, 1);
  }
  const Tensor y = evaluate(graph, backend, {{"a", terms}, {"b", ones}}).at("y");
  double worst = 0;
  for (std::int64_t j = 0; j < 3; ++j) worst = std::max(worst, std::abs(y.at(j) - wanted));
  return worst / (static_cast<double>(chain + blocks) * 0x1p-24 * wanted);
}

}  // namespace unroll::testing
