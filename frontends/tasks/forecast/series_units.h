// SPDX-License-Identifier: Apache-2.0
// The units of forecast series inside a graph. Shapes: S series, H horizon.
#pragma once

#include <cstdint>
#include <span>

#include "frontends/tasks/common/task_parts.h"
#include "unroll/graph.h"

namespace unroll {

// Means and deviations of what a forecast reads [S] (horizon 1), or of what it gives [H*S].
struct SeriesUnits {
  Value mean, deviation;
  SeriesUnits(Graph& graph, std::span<const SeriesScales> series, std::int64_t horizon);
  Value to_scaled(Value x) const;
  Value from_scaled(Value y) const;
};

}  // namespace unroll
