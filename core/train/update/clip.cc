// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/clip.h"

#include <numeric>

#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// `sum_of_squares` adds up the squares of elements times a scale.
template <class SumOfSquares>
ScaledNorm norm_by(const SumOfSquares& sum_of_squares) {
  constexpr double k_scale = 0x1p-80;  // a power of two rounds nothing
  const Value plain = sum_of_squares(1.0), one = scalar_like(plain, 1);
  const Value is_enough = is_finite(plain);
  return {select(is_enough, sqrt(plain), sqrt(sum_of_squares(k_scale))), select(is_enough, one, one * k_scale)};
}
Value scaled_square(Value x, double scale) { return square(scale == 1 ? x : x * scale); }

// Norm of each unit: of a row along axis 0, kept for broadcasting.
ScaledNorm unit_norms(Value x) {
  Ints axes(x.rank() - 1);
  std::iota(axes.begin(), axes.end(), 1);
  return norm_by([&](double scale) { return reduce_sum(scaled_square(x, scale), axes, /*keep=*/true); });
}

// x with a norm of `most` at most. `divisor` is the scaled norm, kept from zero.
Value limited(Value x, const ScaledNorm& norm, Value most, Value divisor) {
  const Value one = scalar_like(norm.scale, 1);
  return x * norm.scale * minimum(most / divisor, one / norm.scale);
}

Value adaptive(Value gradient, Value parameter, double limit) {
  if (parameter.rank() < 2) return gradient;
  const Value most = maximum(unit_norms(parameter).value(), scalar_like(parameter, 1e-3)) * limit;
  const ScaledNorm norm = unit_norms(gradient);
  return limited(gradient, norm, most, maximum(norm.scaled, norm.scale * 1e-6));
}

}  // namespace

ScaledNorm global_norm(std::span<const Value> gradients) {
  return norm_by([&](double scale) {
    Value total;
    for (const Value& g : gradients) {
      const Value part = sum(scaled_square(g, scale));
      total = total ? total + part : part;
    }
    return total;
  });
}

std::vector<Value> clipped(std::vector<Value> gradients, std::span<const Value> parameters, ScaledNorm norm,
                           const ClipOptions& o) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Value& g = gradients[i];
    if (o.value > 0) g = minimum(maximum(g, scalar_like(g, -o.value)), scalar_like(g, o.value));
    if (o.adaptive > 0) g = adaptive(g, parameters[i], o.adaptive);
  }
  if (o.norm == 0) return gradients;
  if (o.value > 0 || o.adaptive > 0) norm = global_norm(gradients);
  const Value most = scalar_like(norm.scaled, o.norm), divisor = norm.scaled + norm.scale * 1e-6;
  for (Value& g : gradients) g = limited(g, norm, most, divisor);
  return gradients;
}

}  // namespace unroll
