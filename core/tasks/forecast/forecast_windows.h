// SPDX-License-Identifier: Apache-2.0
// The windows of a forecast by split, and the units of their errors. Shapes: S series of a segment.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/tasks/forecast/recipe.h"
#include "unroll/train/trainer.h"

namespace unroll {

class ForecastWindows {
 public:
  // Throws Error(usage) if there is no training window. `name` is the training file, for messages.
  ForecastWindows(SeriesOfSplits rows, const ForecastRecipe& recipe, const std::string& name);

  const SeriesRows& rows(Split split) const { return *rows_[split]; }
  const SeriesOfSplits& all_rows() const { return rows_; }
  std::span<const SegmentSplit> splits() const { return splits_; }  // of the training file
  // The first target row of each window. In training they are data.stride apart.
  const Runs& targets(Split split) const { return targets_[split]; }
  const Runs& training_targets() const { return all_training_; }  // without a stride
  std::int64_t n_rows(Split split) const { return sizes_[split]; }
  // The seasonal errors of rows(split), [segments, S]. A segment that the training rows lack has its own error.
  std::span<const double> seasonal(Split split) const { return seasonal_[split]; }
  // Those of a row's segment: [S].
  std::span<const double> seasonal_at(Split split, std::int64_t row) const;
  std::vector<std::string> notes() const;

 private:
  RowRange part_of(std::size_t split, std::size_t segment) const;
  std::vector<double> seasonal_of(std::size_t split, const std::vector<double>& trained, std::int64_t period) const;
  void add_windows(std::size_t split, const ForecastRecipe& recipe);
  [[noreturn]] void refuse_training(const ForecastOptions& options, const std::string& name) const;

  SeriesOfSplits rows_;
  std::vector<SegmentSplit> splits_;
  std::int64_t n_without_unit_ = 0, n_short_ = 0, n_unsplit_ = 0;  // segments of the training file
  PerSplit<std::int64_t> sizes_{};
  PerSplit<Runs> targets_;
  Runs all_training_;
  PerSplit<std::vector<double>> seasonal_;
};

}  // namespace unroll
