// SPDX-License-Identifier: Apache-2.0
// Forecasts of time series.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <optional>

#include "core/support/text/counted.h"
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
};

template <class Method>
ForecastSource source_of(const std::shared_ptr<Method>& method) {
  ForecastSource source{method->horizon(), method->history(), {}, {}, {}};
  source.predict = [=](ForecastSource::Rows histories, std::int64_t steps, ForecastSource::Rows covariates) {
    if constexpr (std::is_same_v<Method, Forecaster>) return method->predict(histories, steps, covariates);
    else return method->predict(histories, steps);
  };
  source.intervals = [=](const Task& task, std::vector<double> levels) {
    return ForecastIntervals(task, *method, std::move(levels));
  };
  if constexpr (std::is_same_v<Method, Forecaster>)
    if (method->has_distribution())
      source.bounds = [=](ForecastSource::Rows histories, std::span<const double> levels,
                          ForecastSource::Rows covariates) { return method->bounds(histories, levels, covariates); };
  return source;
}

std::shared_ptr<const Task> task_of(const RunFolder& run) {
  return make_task(run.config, run.folder, run.model.metadata);
}

ForecastSource source_of(const RunFolder& run, Backend& backend, const std::string& baseline) {
  if (!baseline.empty()) return source_of(std::make_shared<const BaselineForecaster>(*task_of(run), baseline));
  return source_of(std::make_shared<Forecaster>(run.model.metadata, run.model.tensors, backend));
}

// The intervals of --level, by the errors on the validation set of the run and the distribution of the model.
class PredictionIntervals {
 public:
  PredictionIntervals(const RunFolder& run, const ForecastSource& source, const PredictArguments& options,
                      std::int64_t steps)
      : horizon_(source.horizon) {
    if (options.levels.empty()) return;
    const std::vector<double> shares = shares_of(options.levels);
    levels_ = options.levels;
    if (steps > horizon_)
      throw Error(ErrorKind::usage, "--level",
                  fmt::format("intervals are known for the {} that the model forecasts; --horizon is {}",
                              counted(horizon_, "step"), steps),
                  "Leave --horizon out, or train with a larger data.horizon");
    found_.emplace(source.intervals(*task_of(run), shares));
    print_interval_notes(*found_, levels_, static_cast<bool>(source.bounds));
  }

  void add_columns(std::vector<std::string>& columns, const std::string& series) const {
    for (const std::string& level : levels_)
      for (const char* side : {"lo", "hi"}) columns.push_back(fmt::format("{}-{}-{}", series, side, level));
  }
  std::span<const double> levels() const { return found_ ? found_->levels() : std::span<const double>(); }
  // Bounds of the forecast `values` [steps, S] after `history` [rows, S], by level. NaN without enough errors.
  std::vector<ForecastBounds> bounds_of(std::span<const double> values, std::span<const double> history,
                                        std::span<const double> of_model) const {
    std::vector<ForecastBounds> all;
    if (levels_.empty()) return all;
    const std::vector<double> bounds = found_->bounds(values, history, of_model);
    const std::ptrdiff_t n = std::ssize(values);
    for (auto low = bounds.begin(); const std::string& level : levels_) {
      all.push_back({level + " %", {low, low + n}, {low + n, low + 2 * n}});
      low += 2 * n;
    }
    return all;
  }

 private:
  std::int64_t horizon_;
  std::vector<std::string> levels_;
  std::optional<ForecastIntervals> found_;
};

struct Forecasted {
  Forecaster::Values values, bounds;  // as predict and bounds of ForecastSource
};

// Writes the forecasts of a file: a row for each step after the end of each id's series.
class ForecastRows {
 public:
  ForecastRows(RowWriter& writer, const SeriesEnds& ends, const PredictionIntervals& intervals)
      : writer_(writer), ends_(ends) {
    if (!ends.id().empty()) columns_.push_back(ends.id());
    columns_.push_back(ends.date().empty() ? "step" : ends.date());
    for (const std::string& series : ends.columns()) {
      columns_.push_back(series);
      intervals.add_columns(columns_, series);
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
  std::vector<std::string> columns_;
};

// Forecasts several histories. If the output for one is not finite, the others still have theirs.
std::vector<Result<Forecasted>> forecasts_of(const ForecastSource& source, ForecastSource::Rows histories,
                                             ForecastSource::Rows covariates, std::int64_t steps,
                                             std::span<const double> levels) {
  const auto found = attempt([&] {
    std::vector<Forecaster::Values> bounds(histories.size());
    if (source.bounds && !levels.empty()) bounds = source.bounds(histories, levels, covariates);
    return std::pair(source.predict(histories, steps, covariates), std::move(bounds));
  });
  if (!found && found.error().kind() != ErrorKind::numeric) throw_error(found.error());
  std::vector<Result<Forecasted>> all;
  for (std::size_t i = 0; i < histories.size(); ++i) {
    if (found) all.emplace_back(Forecasted{found->first[i], found->second[i]});
    else if (histories.size() == 1) all.emplace_back(found.error());
    else
      all.push_back(forecasts_of(source, histories.subspan(i, 1), covariates.subspan(i, 1), steps, levels)[0]);
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
  ForecastRows rows(writer, ends, intervals);
  FileAnswer answer;
  constexpr std::size_t k_together = 256, k_drawn = 6;
  for (std::size_t begin = 0; begin < ends.size(); begin += k_together) {
    std::vector<SeriesEnd> some;
    std::vector<Forecaster::Values> histories, covariates;
    for (std::size_t i = begin; i < std::min(begin + k_together, ends.size()); ++i) {
      histories.push_back(some.emplace_back(ends.at(i)).values);
      covariates.push_back(std::move(some.back().covariates));
    }
    const std::vector<Result<Forecasted>> found =
        forecasts_of(source, histories, covariates, steps, intervals.levels());
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::vector<ForecastBounds> bounds;
      if (found[i]) bounds = intervals.bounds_of(found[i]->values, some[i].values, found[i]->bounds);
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
    .loss = "Loss (errors in units of each series)",
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
