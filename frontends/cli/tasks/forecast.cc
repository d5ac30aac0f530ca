// SPDX-License-Identifier: Apache-2.0
// Forecasts of time series.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "core/support/text/counted.h"
#include "core/support/text/short_number.h"
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

// The intervals of --level: around each value the model's errors on the validation set of its run.
class PredictionIntervals {
 public:
  PredictionIntervals(const RunFolder& run, Forecaster& forecaster, const PredictArguments& options, std::int64_t steps)
      : horizon_(forecaster.horizon()) {
    for (const std::string& text : options.levels) levels_.push_back({text, level_of(text)});
    if (levels_.empty()) return;
    if (steps > horizon_)
      throw Error(ErrorKind::usage, "--level",
                  fmt::format("intervals are known for the {} that the model forecasts; --horizon is {}",
                              counted(horizon_, "step"), steps),
                  "Leave --horizon out, or train with a larger data.horizon");
    const auto task = make_task(run.config, run.folder, run.model.metadata);
    found_.emplace(*task, forecaster);
    for (const Level& level : levels_)
      if (std::isinf(found_->half_width(level.share, 0, 0)))
        print_line(fmt::format("note: no interval at {} %: the validation set has {}, and {} are needed", level.text,
                               counted(found_->n_errors(), "window"),
                               std::ceil(level.share / (1 - level.share) - 1e-9)));
  }

  void add_columns(std::vector<std::string>& columns, const std::string& series) const {
    for (const Level& level : levels_)
      for (const char* side : {"lo", "hi"}) columns.push_back(fmt::format("{}-{}-{}", series, side, level.text));
  }
  // Without enough errors the cells are empty.
  void add_cells(std::vector<std::string>& cells, double value, std::int64_t ahead, std::size_t series) const {
    for (const Level& level : levels_) {
      const double half = found_->half_width(level.share, ahead, series);
      constexpr double k_precision = 1e-6;  // of the width
      for (const double sign : {-1.0, 1.0})
        cells.push_back(std::isinf(half) ? "" : value_cell(shortest_near(value + sign * half, k_precision * half)));
    }
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

// Returns one row per step after the end of the input's series; without values if the model's output is not finite.
FileAnswer answer_series(const RunFolder& run, Backend& backend, const PredictArguments& options,
                                RowWriter& writer) {
  const std::string name = options.input_name();
  if (options.reads_stdin() && ::isatty(STDIN_FILENO) == 1)
    print_line("reading CSV from the terminal; end with Ctrl-D");
  Activity busy("predicting");
  Forecaster forecaster(run.model.metadata, run.model.tensors, backend);
  const std::int64_t steps = options.horizon.value_or(forecaster.horizon());
  const PredictionIntervals intervals(run, forecaster, options, steps);
  const SeriesEnd end =
      series_end(run.model.metadata, series_file(options.input, name), name, forecaster.history(), steps);
  Result<std::vector<Forecaster::Values>> found = attempt([&] { return forecaster.predict({&end.values, 1}, steps); });
  if (!found && found.error().kind() != ErrorKind::numeric) throw_error(found.error());
  busy.finish();
  for (const std::string& note : end.notes) print_progress(note);
  if (steps > forecaster.horizon())
    print_line(fmt::format("the model forecasts {} at once; later steps follow from its own forecasts",
                           counted(forecaster.horizon(), "step")));
  std::vector<std::string> columns{end.date.empty() ? "step" : end.date};
  for (const std::string& series : end.columns) {
    columns.push_back(series);
    intervals.add_columns(columns, series);
  }
  if (writer.format() != RowFormat::jsonl) writer.row(columns);
  const std::size_t S = end.columns.size();
  for (std::size_t i = 0; i < end.next.size(); ++i) {
    std::vector<std::string> cells{end.next[i]};
    Json object = Json::object();
    object[columns[0]] = end.date.empty() ? Json(i + 1) : Json(end.next[i]);
    for (std::size_t s = 0; s < S && found; ++s) {
      const double value = (*found)[0][i * S + s];
      cells.push_back(value_cell(value));
      intervals.add_cells(cells, value, static_cast<std::int64_t>(i), s);
    }
    cells.resize(columns.size());
    for (std::size_t c = 1; c < columns.size(); ++c)
      object[columns[c]] = cells[c].empty() ? Json() : Json::parse(cells[c]);
    if (!found) object["error"] = message_of(found.error());
    if (writer.format() == RowFormat::jsonl) writer.json(object);
    else writer.row(cells);
  }
  if (!found) return {{}, found.error()};
  return {options.svg.empty() ? std::vector<Panel>{} : end_panels(end, (*found)[0]), std::nullopt};
}

}  // namespace

const TaskRow forecast_row = {
    .title = "Forecast",
    .loss = "Loss (squared error, standardized)",
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
