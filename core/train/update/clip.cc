// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/clip.h"

#include <numeric>

#include "unroll/ops.h"

namespace unroll {

namespace {

// Norm of each unit: of a row along axis 0, kept for broadcasting.
Value unit_norms(Value x) {
  Ints axes(x.rank() - 1);
  std::iota(axes.begin(), axes.end(), 1);
  return sqrt(reduce_sum(square(x), axes, /*keep=*/true));
}

Value adaptive(Value gradient, Value parameter, double limit) {
  if (parameter.rank() < 2) return gradient;
  const Value one = scalar_like(gradient, 1);
  const Value most = maximum(unit_norms(parameter), one * 1e-3) * limit;
  return gradient * minimum(most / maximum(unit_norms(gradient), one * 1e-6), one);
}

}  // namespace

Value global_norm(std::span<const Value> gradients) {
  Value total;
  for (const Value& g : gradients) {
    const Value part = sum(square(g));
    total = total ? total + part : part;
  }
  return sqrt(total);
}

std::vector<Value> clipped(std::vector<Value> gradients, std::span<const Value> parameters, Value norm,
                           const ClipOptions& o) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Value& g = gradients[i];
    if (o.value > 0) g = minimum(maximum(g, scalar_like(g, -o.value)), scalar_like(g, o.value));
    if (o.adaptive > 0) g = adaptive(g, parameters[i], o.adaptive);
  }
  if (o.norm == 0) return gradients;
  if (o.value > 0 || o.adaptive > 0) norm = global_norm(gradients);
  const Value scale = minimum(scalar_like(norm, o.norm) / (norm + 1e-6), scalar_like(norm, 1));
  for (Value& g : gradients) g = g * scale;
  return gradients;
}

}  // namespace unroll
