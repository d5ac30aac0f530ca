// SPDX-License-Identifier: Apache-2.0
// Forecasts of time series.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <optional>
#include <tuple>

#include "core/support/text/counted.h"
#include "core/support/text/short_number.h"
#include "frontends/cli/predict/answers.h"
#include "frontends/cli/predict/forecast_file.h"
#include "frontends/cli/predict/line_reader.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/task_row.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/config/run/job.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"
#include "unroll/tasks/backtest.h"
#include "unroll/tasks/predict_tables.h"

namespace unroll::cli {
namespace {

ForecastOptions forecast_options(const Config& c, const std::string& folder) {
  if (!c.texts("data.columns").empty() && !c.text("data.column").empty())
    c.refuse("data.columns", "data.column is set too", "Keep one of the two");
  return task_options<ForecastOptions>(c, folder);
}

using Json = RowWriter::Json;

constexpr std::size_t k_most_stdin = std::size_t{1} << 28;

std::shared_ptr<const Vfs::Reader> series_file(const std::string& path, const std::string& name) {
  if (path == name) return open_table(path);
  std::string text;
  LineReader lines(path, /*skips_blank=*/false);
  for (std::string line; lines.next(line); text += line + "\n")
    if (text.size() > k_most_stdin)
      throw Error(ErrorKind::input_file, name, "is larger than 256 MiB", "Name the file with --input");
  return split_from_text(std::move(text), name).file;
}

// The model of a run, or a baseline in its place.
struct ForecastSource {
  std::int64_t horizon, history;
  using Rows = std::span<const Forecaster::Values>;
  std::function<std::vector<Forecaster::Values>(Rows histories, std::int64_t steps, Rows covariates)> predict;
  std::function<ForecastIntervals(const Task&, std::vector<double> levels)> intervals;
  std::function<std::vector<Forecaster::Values>(Rows histories, std::span<const double> levels, Rows covariates)>
      bounds;  // as Forecaster::bounds; empty without a distribution
  std::function<std::vector<Forecaster::Values>(Rows histories, std::int64_t n, std::int64_t steps, Rows covariates)>
      paths;  // as Forecaster::paths
};

template <class Method>
ForecastSource source_of(const std::shared_ptr<Method>& method, std::uint64_t seed) {
  ForecastSource source{method->horizon(), method->history(), {}, {}, {}, {}};
  source.predict = [=](ForecastSource::Rows histories, std::int64_t steps, ForecastSource::Rows covariates) {
    if constexpr (std::is_same_v<Method, Forecaster>) return method->predict(histories, steps, covariates);
    else return method->predict(histories, steps);
  };
  source.intervals = [=](const Task& task, std::vector<double> levels) {
    return ForecastIntervals(task, *method, std::move(levels));
  };
  if constexpr (std::is_same_v<Method, Forecaster>)
    if (method->has_distribution()) {
      source.bounds = [=](ForecastSource::Rows histories, std::span<const double> levels,
                          ForecastSource::Rows covariates) { return method->bounds(histories, levels, covariates); };
      source.paths = [=](ForecastSource::Rows histories, std::int64_t n, std::int64_t steps,
                         ForecastSource::Rows covariates) {
        return method->paths(histories, n, steps, seed, covariates);
      };
    }
  return source;
}

std::shared_ptr<const Task> task_of(const RunFolder& run) {
  return make_task(run.config, run.folder, run.model.metadata);
}

ForecastSource source_of(const RunFolder& run, Backend& backend, const std::string& baseline) {
  const auto seed = static_cast<std::uint64_t>(run.config.integer("train.seed"));
  if (!baseline.empty()) return source_of(std::make_shared<const BaselineForecaster>(*task_of(run), baseline), seed);
  return source_of(std::make_shared<Forecaster>(run.model.metadata, run.model.tensors, backend), seed);
}

// Returns the bounds [L,2,steps,S] of paths [n,steps,S].
std::vector<double> bounds_of_paths(std::span<const double> paths, std::span<const double> levels, std::size_t size) {
  const std::size_t n = paths.size() / size;
  std::vector<double> bounds(2 * levels.size() * size), drawn(n);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t k = 0; k < n; ++k) drawn[k] = paths[k * size + i];
    std::ranges::sort(drawn);
    for (std::size_t l = 0; l < levels.size(); ++l)
      for (const bool is_high : {false, true}) {
        const double share = is_high ? (1 + levels[l]) / 2 : (1 - levels[l]) / 2;
        const double at = share * static_cast<double>(n - 1);
        const auto below = static_cast<std::size_t>(at);
        const double part = at - static_cast<double>(below);
        const double bound = drawn[below] + part * (drawn[std::min(below + 1, n - 1)] - drawn[below]);
        bounds[(2 * l + (is_high ? 1 : 0)) * size + i] = shortest_near(bound, 1e-6 * (drawn.back() - drawn[0]));
      }
  }
  return bounds;
}

// The intervals of --level, by the errors on the validation set of the run and the distribution of the model.
class PredictionIntervals {
 public:
  PredictionIntervals(const RunFolder& run, const ForecastSource& source, const PredictArguments& options,
                      std::int64_t steps)
      : horizon_(source.horizon) {
    if (options.levels.empty()) return;
    levels_ = options.levels;
    shares_ = shares_of(levels_);
    is_sampled_ = steps > horizon_ && source.paths;
    if (is_sampled_) {
      print_line(fmt::format("intervals are those of {} paths drawn from the model; they are not calibrated beyond its "
                             "horizon",
                             k_sampled_paths));
      return;
    }
    if (steps > horizon_)
      throw Error(ErrorKind::usage, "--level",
                  fmt::format("intervals are known for the {} that the model forecasts; --horizon is {}",
                              counted(horizon_, "step"), steps),
                  "Leave --horizon out, or train with a larger data.horizon or with model.distribution");
    found_.emplace(source.intervals(*task_of(run), shares_));
    print_interval_notes(*found_, levels_, static_cast<bool>(source.bounds));
  }

  void add_columns(std::vector<std::string>& columns, const std::string& series) const {
    for (const std::string& level : levels_)
      for (const char* side : {"lo", "hi"}) columns.push_back(fmt::format("{}-{}-{}", series, side, level));
  }
  // Levels whose bounds the model gives, and paths to draw for others.
  std::span<const double> levels() const { return is_sampled_ ? std::span<const double>() : shares_; }
  std::int64_t n_paths() const { return is_sampled_ ? k_sampled_paths : 0; }
  // Bounds of the forecast `values` [steps, S] after `history` [rows, S], by level. NaN without enough errors.
  std::vector<ForecastBounds> bounds_of(std::span<const double> values, std::span<const double> history,
                                        std::span<const double> of_model) const {
    std::vector<ForecastBounds> all;
    if (levels_.empty()) return all;
    const std::vector<double> bounds =
        is_sampled_ ? bounds_of_paths(of_model, shares_, values.size()) : found_->bounds(values, history, of_model);
    const std::ptrdiff_t n = std::ssize(values);
    for (auto low = bounds.begin(); const std::string& level : levels_) {
      all.push_back({level + " %", {low, low + n}, {low + n, low + 2 * n}});
      low += 2 * n;
    }
    return all;
  }

 private:
  static constexpr std::int64_t k_sampled_paths = 200;
  std::int64_t horizon_;
  bool is_sampled_ = false;
  std::vector<double> shares_;
  std::vector<std::string> levels_;
  std::optional<ForecastIntervals> found_;
};

struct Forecasted {
  Forecaster::Values values, bounds, paths;  // as those functions of ForecastSource
};
// Further answers that are asked for.
struct Wanted {
  std::int64_t steps;
  std::span<const double> levels;
  std::int64_t n_paths;
};

// Writes the forecasts of a file: a row for each step after the end of each id's series.
class ForecastRows {
 public:
  ForecastRows(RowWriter& writer, const SeriesEnds& ends, const PredictionIntervals& intervals, std::int64_t n_paths)
      : writer_(writer), ends_(ends), n_paths_(n_paths) {
    if (!ends.id().empty()) columns_.push_back(ends.id());
    columns_.push_back(ends.date().empty() ? "step" : ends.date());
    for (const std::string& series : ends.columns()) {
      columns_.push_back(series);
      intervals.add_columns(columns_, series);
      for (std::int64_t p = 1; p <= n_paths; ++p) columns_.push_back(fmt::format("{}-path-{}", series, p));
    }
    if (writer.format() != RowFormat::jsonl) writer.row(columns_);
  }

  // Without values if the model's output is not finite.
  void write(const SeriesEnd& end, const Result<Forecasted>& found, std::span<const ForecastBounds> bounds) {
    const std::size_t S = ends_.columns().size();
    for (std::size_t i = 0; i < end.next.size(); ++i) {
      std::vector<std::string> cells;
      Json object = Json::object();
      if (!ends_.id().empty()) object[ends_.id()] = cells.emplace_back(end.id);
      object[columns_[cells.size()]] = ends_.date().empty() ? Json(i + 1) : Json(end.next[i]);
      cells.push_back(end.next[i]);
      const std::size_t n_names = cells.size();
      for (std::size_t s = 0; s < S && found; ++s) {
        const std::size_t k = i * S + s;
        cells.push_back(value_cell(found->values[k]));
        for (const ForecastBounds& of_level : bounds)
          for (const double bound : {of_level.low[k], of_level.high[k]})
            cells.push_back(std::isnan(bound) ? "" : value_cell(bound));
        for (std::int64_t p = 0; p < n_paths_; ++p)
          cells.push_back(value_cell(found->paths[static_cast<std::size_t>(p) * found->values.size() + k]));
      }
      cells.resize(columns_.size());
      for (std::size_t c = n_names; c < columns_.size(); ++c)
        object[columns_[c]] = cells[c].empty() ? Json() : Json::parse(cells[c]);
      if (!found) object["error"] = message_of(found.error());
      if (writer_.format() == RowFormat::jsonl) writer_.json(object);
      else writer_.row(cells);
    }
  }

 private:
  RowWriter& writer_;
  const SeriesEnds& ends_;
  std::int64_t n_paths_;
  std::vector<std::string> columns_;
};

// Forecasts several histories. If the output for one is not finite, the others still have theirs.
std::vector<Result<Forecasted>> forecasts_of(const ForecastSource& source, ForecastSource::Rows histories,
                                             ForecastSource::Rows covariates, const Wanted& wanted) {
  const auto found = attempt([&] {
    std::vector<Forecaster::Values> bounds(histories.size()), paths = bounds;
    if (source.bounds && !wanted.levels.empty()) bounds = source.bounds(histories, wanted.levels, covariates);
    if (wanted.n_paths > 0) paths = source.paths(histories, wanted.n_paths, wanted.steps, covariates);
    return std::tuple(source.predict(histories, wanted.steps, covariates), std::move(bounds), std::move(paths));
  });
  if (!found && found.error().kind() != ErrorKind::numeric) throw_error(found.error());
  std::vector<Result<Forecasted>> all;
  for (std::size_t i = 0; i < histories.size(); ++i) {
    if (found) all.emplace_back(Forecasted{std::get<0>(*found)[i], std::get<1>(*found)[i], std::get<2>(*found)[i]});
    else if (histories.size() == 1) all.emplace_back(found.error());
    else
      all.push_back(forecasts_of(source, histories.subspan(i, 1), covariates.subspan(i, 1), wanted)[0]);
  }
  return all;
}

FileAnswer answer_series(const RunFolder& run, Backend& backend, const PredictArguments& options, RowWriter& writer) {
  const std::string name = options.input_name();
  if (options.reads_stdin() && ::isatty(STDIN_FILENO) == 1)
    print_line("reading CSV from the terminal; end with Ctrl-D");
  Activity busy("predicting");
  const ForecastSource source = source_of(run, backend, options.baseline);
  const std::int64_t steps = options.horizon.value_or(source.horizon);
  if (options.n_paths > 0 && !source.paths)
    throw Error(ErrorKind::usage, "--paths", "the model has no distribution to draw from",
                "Train with model.distribution, such as student_t");
  const PredictionIntervals intervals(run, source, options, steps);
  Metadata metadata = run.model.metadata;
  if (!options.baseline.empty() && metadata.contains("missing") && metadata["missing"] == "interpolate")
    metadata["missing"] = "previous";  // as the baselines of eval
  const SeriesEnds ends(metadata, series_file(options.input, name), name, source.history, steps);
  busy.finish();
  for (const std::string& note : ends.notes()) print_progress(note);
  if (steps > source.horizon && options.baseline.empty())
    print_line(fmt::format("the model forecasts {} at once; later steps follow from its own forecasts",
                           counted(source.horizon, "step")));
  ForecastRows rows(writer, ends, intervals, options.n_paths);
  FileAnswer answer;
  constexpr std::size_t k_together = 256, k_drawn = 6;
  for (std::size_t begin = 0; begin < ends.size(); begin += k_together) {
    std::vector<SeriesEnd> some;
    std::vector<Forecaster::Values> histories, covariates;
    for (std::size_t i = begin; i < std::min(begin + k_together, ends.size()); ++i) {
      histories.push_back(some.emplace_back(ends.at(i)).values);
      covariates.push_back(std::move(some.back().covariates));
    }
    const std::vector<Result<Forecasted>> found = forecasts_of(
        source, histories, covariates, {steps, intervals.levels(), std::max(options.n_paths, intervals.n_paths())});
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::vector<ForecastBounds> bounds;
      if (found[i])
        bounds = intervals.bounds_of(found[i]->values, some[i].values,
                                     intervals.n_paths() > 0 ? found[i]->paths : found[i]->bounds);
      rows.write(some[i], found[i], bounds);
      if (!found[i] && !answer.failure) answer.failure = found[i].error();
      if (!found[i] || options.svg.empty() || begin + i >= k_drawn) continue;
      for (Panel& panel : end_panels(ends.columns(), some[i], found[i]->values, bounds))
        answer.panels.push_back(std::move(panel));
    }
  }
  if (!answer.panels.empty() && ends.size() > k_drawn)
    answer.panels.back().note = fmt::format("The first {} of {} series.", k_drawn, ends.size());
  return answer;
}

}  // namespace

const TaskRow forecast_row = {
    .title = "Forecast",
    .loss = "Loss (in units of each series)",
    .metrics = {{{"mase", "MASE"}, {"mae", "MAE"}}},
    .defaults = {{{"model.hidden", 32},
                  {"train.lr", 0.001},
                  {"train.weight_decay", 0.03},
                  {"train.max_updates", 300},
                  {"train.validate_every", 50}}},
    .sample = {"series.csv", sample_series},
    .make = make_of<make_forecast, forecast_options>,
    .check = check_of<forecast_options>,
    .answer_file = answer_series,
    .n_examples = 400,
};

}  // namespace unroll::cli
