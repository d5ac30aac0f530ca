// SPDX-License-Identifier: Apache-2.0
// Options of a forecast that the data decide: period, horizon, window, differences and scale.
#pragma once

#include <string>
#include <vector>

#include "core/tasks/forecast/linear_fit.h"

namespace unroll {

struct ForecastRecipe {
  ForecastOptions options;  // nothing is left to the data
  ForecastShape shape;
  std::vector<SegmentSplit> splits;  // of the training file
  std::vector<std::string> notes;    // what was decided, as Task::notes()
};
// Decides by the rows of the training file before its test rows. A window and its targets take at most `room` rows:
// those of the smallest other file of a split.
ForecastRecipe decide_recipe(const ForecastOptions& options, const SeriesRows& rows, std::int64_t room);
// Takes what the options leave open from a trained model.
ForecastRecipe trained_recipe(const ForecastOptions& options, const SeriesRows& rows, const Metadata& fitted);

}  // namespace unroll
