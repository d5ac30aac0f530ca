// SPDX-License-Identifier: Apache-2.0
// Forecasts of time series.
#include <fmt/format.h>
#include <unistd.h>

#include "core/support/text/counted.h"
#include "frontends/cli/predict/answers.h"
#include "frontends/cli/predict/line_reader.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/task_row.h"
#include "frontends/cli/terminal/activity.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"
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

// Returns one row per step after the end of the input's series; without values if the model's output is not finite.
FileAnswer answer_series(const RunFolder& run, Backend& backend, const PredictArguments& options,
                                RowWriter& writer) {
  const std::string name = options.input_name();
  if (options.reads_stdin() && ::isatty(STDIN_FILENO) == 1)
    print_line("reading CSV from the terminal; end with Ctrl-D");
  Activity busy("predicting");
  Forecaster forecaster(run.model.metadata, run.model.tensors, backend);
  const std::int64_t steps = options.horizon.value_or(forecaster.horizon());
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
  columns.insert(columns.end(), end.columns.begin(), end.columns.end());
  if (writer.format() != RowFormat::jsonl) writer.row(columns);
  const std::size_t S = end.columns.size();
  for (std::size_t i = 0; i < end.next.size(); ++i) {
    std::vector<std::string> cells{end.next[i]};
    Json object = Json::object();
    object[columns[0]] = end.date.empty() ? Json(i + 1) : Json(end.next[i]);
    for (std::size_t s = 0; s < S; ++s) {
      cells.push_back(found ? value_cell((*found)[0][i * S + s]) : "");
      object[columns[s + 1]] = found ? Json::parse(cells.back()) : Json();
    }
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
    .defaults = {{{"model.hidden", 32}, {"train.lr", 0.005}, {"train.max_updates", 300}}},
    .sample = {"series.csv", sample_series},
    .make = make_of<make_forecast, forecast_options>,
    .check = check_of<forecast_options>,
    .answer_file = answer_series,
    .n_examples = 400,
};

}  // namespace unroll::cli
