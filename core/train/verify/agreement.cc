// SPDX-License-Identifier: Apache-2.0
#include "core/train/verify/agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/support/text/exact_text.h"
#include "core/train/device/node_words.h"
#include "core/train/verify/rounding.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr double k_norm = 4, k_peak = 16;

struct PrecisionRow {
  Precision precision;
  double roundoff;  // of the operands of products
};
constexpr PrecisionRow k_precisions[] = {
    {Precision::f32, 0x1p-24}, {Precision::tf32, 0x1p-11}, {Precision::f16, 0x1p-11}, {Precision::bf16, 0x1p-8}};

bool same_number(double a, double b) { return a == b || (a != a && b != b); }

}  // namespace

double allowed_distance(const Work& work, DType dtype) {
  double s = unit_roundoff(dtype);
  for (const PrecisionRow& row : k_precisions)
    if (row.precision == work.precision && dtype == DType::f32) s = row.roundoff;
  return k_norm * (work.backward ? 2 : 1) * static_cast<double>(1 + work.updates) * tree_levels(work.terms) * s;
}

std::int64_t terms_of_graph(const Graph& graph) {
  std::int64_t longest = 1, steps = 1;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::scan) {
      longest = std::max(longest, terms_of_graph(*node.body));
      steps = std::max(steps, scan_layout(node).steps);
    }
    if (node.op == Op::reduce_sum) {
      const std::int64_t kept = std::max<std::int64_t>(node.outputs[0].shape.elements(), 1);
      longest = std::max(longest, graph.type(node.inputs[0]).shape.elements() / kept);
    }
    if (node.op == Op::matmul) {
      const Shape& a = graph.type(node.inputs[0]).shape;
      longest = std::max(longest, a[a.rank() - (node.attributes.get<bool>("transpose_a") ? 2 : 1)]);
    }
  }
  return longest * steps;
}

Distance distance(const Tensor& got, const Tensor& wanted, std::int64_t elements) {
  constexpr double k_infinite = std::numeric_limits<double>::infinity();
  const std::int64_t n = elements < 0 ? wanted.elements() : elements;
  double error2 = 0, norm2 = 0, peak = 0, worst = 0;
  std::int64_t at = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = got.at(i), b = wanted.at(i);
    if (std::isfinite(b)) {
      norm2 += b * b;
      peak = std::max(peak, std::abs(b));
    }
    if (same_number(a, b)) continue;
    const double error = std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : k_infinite;
    error2 += error * error;
    if (error > worst) {
      worst = error;
      at = i;
    }
  }
  if (at < 0) return {};
  const std::string numbers = short_text(got.at(at), 9) + ", not " + short_text(wanted.at(at), 9) + ",";
  const double l2 = std::sqrt(error2 / norm2), element = worst / peak / k_peak;
  const double relative = l2 == l2 && element == element ? std::max(l2, element) : k_infinite;
  return {is_float(wanted.dtype()) ? relative : k_infinite, numbers + element_words(wanted.type(), at)};
}

}  // namespace unroll
