// SPDX-License-Identifier: Apache-2.0
// Lengths of seasons, from the step of the dates and from the autocorrelation of the series.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/series/series_rows.h"

namespace unroll {

struct Season {
  std::int64_t length = 1;  // rows
  std::string reason;       // "a year, at a row every 1 month"
};
// Returns the usual seasons for a step between rows, the shortest first.
std::vector<Season> usual_seasons(DateStep step);

// Returns the seasons that the longest of these parts of segments show: peaks of the autocorrelation of the first
// differences, the shortest first, at most two; none if no peak exceeds chance.
std::vector<Season> shown_seasons(const SeriesRows& rows, std::vector<RowRange> parts);

}  // namespace unroll
