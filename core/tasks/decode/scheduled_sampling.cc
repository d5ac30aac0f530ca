// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/decode/scheduled_sampling.h"

#include <cmath>
#include <string_view>

#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// A schedule: the fraction of the share reached at x = batch / n.
struct SamplingRow {
  std::string_view name;
  Value (*share)(Value x, double n);
};
constexpr SamplingRow k_sampling[] = {
    {"constant", [](Value x, double) { return scalar_like(x, 1); }},
    {"linear", [](Value x, double) { return x; }},
    {"exponential", [](Value x, double) { return 1 - exp(-x); }},
    // 1 - n / (n + e^x), without overflow
    {"inverse-sigmoid", [](Value x, double n) { return sigmoid(x - std::log(n)); }},
};

// Returns the share of predicted inputs at this batch, a scalar; the key counts batches from 1.
Value share_of(Scope& scope, const SamplingOptions& options) {
  const Value i = reshape(cast(slice(scope.key(), 0, 2, 1), DType::f32), {}) - 1.0;
  const double n = static_cast<double>(options.sampling_batches);
  for (const SamplingRow& row : k_sampling)
    if (row.name == options.sampling_schedule)
      return minimum(maximum(row.share(i / n, n), scalar_like(i, 0)), scalar_like(i, 1)) * options.scheduled_sampling;
  throw Error(ErrorKind::internal, "scheduled sampling", "no schedule '" + options.sampling_schedule + "'");
}

}  // namespace

Value sampled_inputs(Scope& scope, const SamplingOptions& options, Value before, Value own) {
  const std::int64_t T = before.shape()[0], B = before.shape()[1];
  if (T < 2) return before;
  const Value u = random_uniform(scope.key(), {T - 1, B}, scope.next_rng_stream());
  const Value rest = select(less(u, share_of(scope, options)), slice(own, 0, 0, T - 1), slice(before, 0, 1, T - 1));
  return concat(std::vector{slice(before, 0, 0, 1), rest}, 0);
}

}  // namespace unroll
