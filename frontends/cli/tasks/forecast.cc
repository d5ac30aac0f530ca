// SPDX-License-Identifier: Apache-2.0
// Forecasts of time series.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "core/support/text/counted.h"
#include "frontends/cli/predict/answers.h"
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
  std::function<ForecastIntervals(const Task&)> intervals;
};

template <class Method>
ForecastSource source_of(const std::shared_ptr<Method>& method) {
  return {method->horizon(), method->history(),
          [=](ForecastSource::Rows histories, std::int64_t steps, ForecastSource::Rows covariates) {
            if constexpr (std::is_same_v<Method, Forecaster>) return method->predict(histories, steps, covariates);
            else return method->predict(histories, steps);
          },
          [=](const Task& task) { return ForecastIntervals(task, *method); }};
}

std::shared_ptr<const Task> task_of(const RunFolder& run) {
  return make_task(run.config, run.folder, run.model.metadata);
}

ForecastSource source_of(const RunFolder& run, Backend& backend, const std::string& baseline) {
  if (!baseline.empty()) return source_of(std::make_shared<const BaselineForecaster>(*task_of(run), baseline));
  return source_of(std::make_shared<Forecaster>(run.model.metadata, run.model.tensors, backend));
}

// The intervals of --level: around each value the errors on the validation set of its run.
class PredictionIntervals {
 public:
  PredictionIntervals(const RunFolder& run, const ForecastSource& source, const PredictArguments& options,
                      std::int64_t steps)
      : horizon_(source.horizon) {
    for (const std::string& text : options.levels) levels_.push_back({text, level_of(text)});
    if (levels_.empty()) return;
    if (steps > horizon_)
      throw Error(ErrorKind::usage, "--level",
                  fmt::format("intervals are known for the {} that the model forecasts; --horizon is {}",
                              counted(horizon_, "step"), steps),
                  "Leave --horizon out, or train with a larger data.horizon");
    found_.emplace(source.intervals(*task_of(run)));
    for (const Level& level : levels_)
      if (found_->n_errors() < found_->least_errors(level.share))
        print_line(fmt::format("note: no interval at {} %: the validation set has {}, and {} are needed", level.text,
                               counted(found_->n_errors(), "window"), found_->least_errors(level.share)));
  }

  void add_columns(std::vector<std::string>& columns, const std::string& series) const {
    for (const Level& level : levels_)
      for (const char* side : {"lo", "hi"}) columns.push_back(fmt::format("{}-{}-{}", series, side, level.text));
  }
  // Bounds of the forecast `values` [steps, S] after `history` [rows, S], by level. NaN without enough errors.
  std::vector<ForecastBounds> bounds_of(std::span<const double> values, std::span<const double> history,
                                        std::size_t n_series) const {
    std::vector<ForecastBounds> all;
    for (const Level& level : levels_) {
      ForecastBounds& bounds = all.emplace_back(ForecastBounds{level.text + " %", {}, {}});
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto [low, high] = found_->bounds(values[i], level.share, static_cast<std::int64_t>(i / n_series),
                                                i % n_series, history);
        bounds.low.push_back(low);
        bounds.high.push_back(high);
      }
    }
    return all;
  }

 private:
  struct Level {
    std::string text;
    double share;
  };
  static double level_of(const std::string& text) {
    double percent = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
    if (error == std::errc() && stop == text.data() + text.size() && percent > 0 && percent < 100) return percent / 100;
    throw Error(ErrorKind::usage, "--level", fmt::format("must be percentages between 0 and 100; got '{}'", text),
                "Write for example --level 80,95");
  }

  std::int64_t horizon_;
  std::vector<Level> levels_;
  std::optional<ForecastIntervals> found_;
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
  void write(const SeriesEnd& end, const Result<Forecaster::Values>& found, std::span<const ForecastBounds> bounds) {
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
        cells.push_back(value_cell((*found)[k]));
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
std::vector<Result<Forecaster::Values>> forecasts_of(const ForecastSource& source,
                                                     std::span<const Forecaster::Values> histories,
                                                     std::span<const Forecaster::Values> covariates,
                                                     std::int64_t steps) {
  std::vector<Result<Forecaster::Values>> all;
  Result<std::vector<Forecaster::Values>> found =
      attempt([&] { return source.predict(histories, steps, covariates); });
  if (!found && found.error().kind() != ErrorKind::numeric) throw_error(found.error());
  for (std::size_t i = 0; i < histories.size(); ++i) {
    if (found) all.emplace_back(std::move((*found)[i]));
    else if (histories.size() == 1) all.emplace_back(found.error());
    else
      all.push_back(std::move(forecasts_of(source, histories.subspan(i, 1), covariates.subspan(i, 1), steps)[0]));
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
    const std::vector<Result<Forecaster::Values>> found = forecasts_of(source, histories, covariates, steps);
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::vector<ForecastBounds> bounds;
      if (found[i]) bounds = intervals.bounds_of(*found[i], some[i].values, ends.columns().size());
      rows.write(some[i], found[i], bounds);
      if (!found[i] && !answer.failure) answer.failure = found[i].error();
      if (!found[i] || options.svg.empty() || begin + i >= k_drawn) continue;
      for (Panel& panel : end_panels(ends.columns(), some[i], *found[i], bounds))
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
