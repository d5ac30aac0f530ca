// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/forecast/series_units.h"

#include "unroll/ops.h"

namespace unroll {

SeriesUnits::SeriesUnits(Graph& graph, std::span<const SeriesScales> series, std::int64_t horizon) {
  Tensor means(DType::f32, {horizon * static_cast<std::int64_t>(series.size())}), deviations = means;
  std::int64_t at = 0;
  for (std::size_t h = 0; h < static_cast<std::size_t>(horizon); ++h)
    for (const SeriesScales& s : series) {
      means.set(at, s.ahead[h].mean);
      deviations.set(at++, s.ahead[h].deviation);
    }
  mean = constant(graph, means);
  deviation = constant(graph, deviations);
}

Value SeriesUnits::to_scaled(Value x) const { return (x - mean) / deviation; }
Value SeriesUnits::from_scaled(Value y) const { return y * deviation + mean; }

}  // namespace unroll
