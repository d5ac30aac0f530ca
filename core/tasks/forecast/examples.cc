// SPDX-License-Identifier: Apache-2.0
// The last forecasts of a split, for pictures.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/data/series/series_rows.h"
#include "core/tasks/common/example_parts.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/forecast/forecast_series.h"

namespace unroll {

namespace {

// Returns the last consecutive windows of a segment, without overlap.
std::vector<std::int64_t> last_windows(const Runs& windows, const SeriesSegment& of, std::int64_t horizon,
                                       std::size_t most) {
  std::vector<std::int64_t> all, starts;
  windows.for_each_between(of.begin, of.end, [&](std::int64_t t) { all.push_back(t); });
  for (std::size_t i = all.size(); i-- > 0 && starts.size() * horizon < most;)
    if (starts.empty() || all[i] + horizon <= starts.back()) starts.push_back(all[i]);
  std::reverse(starts.begin(), starts.end());
  return starts;
}

// Adds the last forecasts of a segment, for each series.
void add_examples(const SplitSeries& task, const SeriesSegment& segment, Forecaster& forecaster, std::size_t most,
                  Examples& examples) {
  const SeriesRows& rows = task.series(examples.split);
  const std::int64_t H = forecaster.horizon();
  const auto baselines = task.fit_baselines(/*regresses=*/false);
  std::int64_t back = 1;
  for (const std::string_view name : baselines->names()) back = std::max(back, baselines->history(name));
  const std::size_t S = rows.n_series(), first = examples.forecasts.size();
  for (std::size_t s = 0; s < S; ++s) examples.forecasts.emplace_back().series = rows.series_name(segment, s);
  SeriesPiece piece;
  for (const std::int64_t t : last_windows(task.windows(examples.split), segment, H, most)) {
    rows.read_window(t - forecaster.history(), t, piece);
    if (task.interpolates()) piece.interpolate(t);
    const Forecaster::Values covariates =
        covariates_around(task.covariates(), rows, t - forecaster.history(), t, t + H);
    const Forecaster::Values values = forecaster.predict({&piece.levels, 1}, 0, {&covariates, 1})[0];
    rows.read(std::max(t - back, segment.begin), t + H, piece);
    for (std::size_t s = 0; s < S; ++s) {
      ForecastExample& e = examples.forecasts[first + s];
      std::vector<double> past;
      for (std::int64_t r = piece.begin; r < t; ++r) past.push_back(piece.level(r, s));
      for (const std::string_view name : baselines->names())
        std::ranges::copy(baselines->path(name, past, s, H), std::back_inserter(e.baselines[std::string(name)]));
      for (std::int64_t h = 0; h < H; ++h) {
        e.at.push_back(rows.place(segment, t + h));
        e.actual.push_back(piece.is_observed(t + h, s) ? piece.level(t + h, s) : std::nan(""));
        e.predicted.push_back(values[h * S + s]);
        e.ahead.push_back(h + 1);
      }
    }
  }
}

}  // namespace

void forecast_examples(const ExampleRequest& r, Examples& examples) {
  const auto* task = dynamic_cast<const SplitSeries*>(&r.task);
  if (!task) return;
  Forecaster forecaster(r.metadata, r.parameters, r.backend);
  constexpr std::size_t k_most_segments = 6;  // evenly spread
  const std::vector<SeriesSegment>& segments = task->series(examples.split).segments();
  const std::size_t every = (segments.size() + k_most_segments - 1) / k_most_segments;
  for (std::size_t k = 0; k < segments.size(); k += every)
    add_examples(*task, segments[k], forecaster, r.most, examples);
}

}  // namespace unroll
