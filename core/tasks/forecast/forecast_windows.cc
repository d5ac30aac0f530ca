// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/forecast_windows.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "core/support/text/counted.h"
#include "unroll/support/error.h"

namespace unroll {

ForecastWindows::ForecastWindows(SeriesOfSplits rows, const ForecastRecipe& recipe, const std::string& name)
    : rows_(std::move(rows)), splits_(recipe.splits) {
  const bool has_share = recipe.options.test.share > 0 || recipe.options.validation.share > 0;
  const auto is_unsplit = [](const SegmentSplit& s) { return s.validation == s.end; };
  if (has_share) n_unsplit_ = std::ranges::count_if(splits_, is_unsplit);
  const std::vector<double> trained = seasonal_errors(*rows_[0], splits_, recipe.options.period);
  for (std::size_t split = 0; split < rows_.size(); ++split) {
    seasonal_[split] = seasonal_of(split, trained, recipe.options.period);
    add_windows(split, recipe);
  }
  if (targets_[0].empty()) refuse_training(recipe.options, name);
}

std::span<const double> ForecastWindows::seasonal_at(Split split, std::int64_t row) const {
  const std::size_t S = rows(split).n_series();
  return seasonal(split).subspan(rows(split).segment_at(row) * S, S);
}

RowRange ForecastWindows::part_of(std::size_t split, std::size_t segment) const {
  if (rows_[split] != rows_[0]) {
    const SeriesSegment& all = rows_[split]->segments()[segment];
    return {all.begin, all.end};
  }
  const SegmentSplit& s = splits_[segment];
  const std::int64_t bounds[] = {s.begin, s.validation, s.test, s.end};
  return {bounds[split], bounds[split + 1]};
}

std::vector<double> ForecastWindows::seasonal_of(std::size_t split, const std::vector<double>& trained,
                                                 std::int64_t period) const {
  if (rows_[split] == rows_[0]) return trained;
  std::unordered_map<std::string, std::size_t> places;
  for (const SeriesSegment& segment : rows_[0]->segments()) places.emplace(segment.id, places.size());
  std::vector<double> errors;
  for (const SeriesSegment& segment : rows_[split]->segments()) {
    const SegmentSplit own{segment.begin, segment.end, segment.end, segment.end};
    const std::size_t S = rows_[0]->n_series();
    const auto known = places.find(segment.id);
    if (known == places.end())
      std::ranges::copy(seasonal_errors(*rows_[split], {&own, 1}, period), std::back_inserter(errors));
    else
      std::ranges::copy(std::span(trained).subspan(known->second * S, S), std::back_inserter(errors));
  }
  return errors;
}

void ForecastWindows::add_windows(std::size_t split, const ForecastRecipe& recipe) {
  const SeriesRows& rows = *rows_[split];
  const std::size_t S = rows.n_series();
  targets_[split] = Runs(split == 0 ? recipe.options.stride : 1);
  for (std::size_t k = 0; k < rows.segments().size(); ++k) {
    const RowRange part = part_of(split, k);
    sizes_[split] += part.size();
    // The errors of a common model need a unit.
    const std::span<const double> units = std::span<const double>(seasonal_[split]).subspan(k * S, S);
    if (recipe.shape.form.is_common && std::ranges::none_of(units, [](double unit) { return unit > 0; })) {
      n_without_unit_ += split == 0;
      continue;
    }
    TargetOptions o = recipe.shape.targets(rows.segments()[k].begin, split == 0 ? recipe.options.stride : 1);
    add_targets_between(rows.observed(), part.begin, part.end, o, targets_[split]);
    if (split > 0) continue;
    const std::int64_t before = all_training_.size();
    o.stride = 1;
    add_targets_between(rows.observed(), part.begin, part.end, o, all_training_);
    n_short_ += all_training_.size() == before;
  }
}

// Rows of data.path: [0, validation) train, [validation, test) validate, [test, n) test.
void ForecastWindows::refuse_training(const ForecastOptions& o, const std::string& name) const {
  if (n_without_unit_ == std::ssize(splits_))
    throw Error(ErrorKind::usage, name,
                "no series can be trained on: none has a change over data.period = " + std::to_string(o.period),
                "Set data.period to the length of a season, or to 1; a series that repeats needs no model");
  std::int64_t validation = 0, test = 0;
  for (const SegmentSplit& s : splits_) {
    validation += s.test - s.validation;
    test += s.end - s.test;
  }
  const std::int64_t n = rows_[0]->size();
  throw Error(ErrorKind::usage, name,
              std::to_string(n - validation - test) + " of " + counted(n, "value") +
                  " are left for training, too few for a training window of " + std::to_string(o.window) +
                  " and a horizon of " + std::to_string(o.horizon) + ": data.validation takes " +
                  std::to_string(validation) + " and data.test " + std::to_string(test),
              "Lower data.window, data.horizon, data.validation or data.test, or use more data");
}

std::vector<std::string> ForecastWindows::notes() const {
  std::vector<std::string> all;
  if (rows_[0]->id_column() == "none") return all;
  const std::string of = rows_[0]->reader().name() + ": ";
  if (n_unsplit_ > 0)
    all.push_back(of + counted_are(n_unsplit_, "series") + " too short for validation and test rows");
  if (n_short_ > 0)
    all.push_back(of + counted_are(n_short_, "series") + " too short for a training window: forecast, not trained on");
  if (n_without_unit_ > 0)
    all.push_back(of + counted_are(n_without_unit_, "series") +
                  " without a change over data.period: forecast, neither trained on nor scored");
  return all;
}

}  // namespace unroll
