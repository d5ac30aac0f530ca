// SPDX-License-Identifier: Apache-2.0
// Answers to tables: classes of rows, forecasts that follow a series.
#include <fmt/format.h>

#include <unistd.h>

#include <deque>

#include "core/support/counted.h"
#include "frontends/cli/answers/answers.h"
#include "frontends/cli/answers/line_reader.h"
#include "frontends/cli/page/pictures.h"
#include "frontends/cli/terminal/activity.h"
#include "unroll/error.h"
#include "unroll/predict_tables.h"
#include "unroll/tasks.h"

namespace unroll::cli {
namespace {

using Json = RowWriter::Json;

class ClassAnswers : public Answers {
 public:
  ClassAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : classifier_(run.model.metadata, run.model.tensors, backend),
        reader_(run.model.metadata, options.input.empty() || options.input == "-" ? "stdin" : options.input),
        top_k_(std::clamp<std::int64_t>(options.top_k, 1, static_cast<std::int64_t>(classifier_.labels().size()))) {}
  RowFormat usual_format() const override { return RowFormat::csv; }
  LineReader::Unit unit() const override { return LineReader::Unit::csv_row; }
  std::vector<std::string> columns() const override { return ranking_columns(top_k_); }
  bool accepts(const InputLine& line) override {
    std::optional<FeatureReader::Row> row = reader_.read(line.text, line.number);
    if (!row) return false;
    waiting_.push_back(std::move(*row));
    return true;
  }
  // A column that is not there is missing in every line.
  bool is_about_a_line(const Error& error) const override { return error.kind() == ErrorKind::input_file; }
  void predict(const std::vector<InputLine>& lines) override {
    std::vector<Classifier::Row> rows;
    std::vector<std::string> truth;
    places_.assign(lines.size(), -1);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].error.empty()) continue;
      places_[i] = static_cast<std::ptrdiff_t>(rows.size());
      if (drawn_.size() < k_most_drawn) {
        drawn_.push_back(waiting_.front().values);
        drawn_lines_.push_back(lines[i].number);
      }
      rows.push_back(std::move(waiting_.front().values));
      truth.push_back(std::move(waiting_.front().label));
      waiting_.pop_front();
    }
    results_ = classifier_.predict(rows, top_k_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (truth[i].empty()) continue;
      ++labelled_;
      right_ += results_[i][0].label == truth[i];
    }
  }
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    const std::vector<ScoredLabel> none;
    const std::vector<ScoredLabel>& labels =
        places_[i] < 0 ? none : results_[static_cast<std::size_t>(places_[i])];
    if (writer.format() == RowFormat::jsonl) {
      Json object = Json::object();
      put_ranking(object, labels, top_k_);
      if (!line.error.empty()) object["error"] = line.error;
      return writer.json(object);
    }
    const std::vector<std::string> cells = ranking_cells(labels, top_k_);
    if (writer.is_table()) return writer.row(cells);
    writer.text(labels.empty() ? "\n" : fmt::format("{}\n", fmt::join(cells, "\t")));
  }
  std::string summary() const override {
    if (labelled_ == 0) return {};
    const double accuracy = static_cast<double>(right_) / static_cast<double>(labelled_);
    return fmt::format("accuracy {:.4g} on {} with a label", accuracy, counted(labelled_, "row"));
  }
  std::vector<Panel> panels() override {
    std::vector<Panel> panels;
    const auto results = classifier_.predict(drawn_, 0);
    for (std::size_t i = 0; i < results.size(); ++i)
      panels.push_back(probability_panel(fmt::format("Line {}", drawn_lines_[i]), results[i]));
    return panels;
  }

 private:
  Classifier classifier_;
  FeatureReader reader_;
  std::int64_t top_k_;
  std::deque<FeatureReader::Row> waiting_;  // rows that were accepted and not predicted yet
  std::vector<std::ptrdiff_t> places_;      // by line: its result, -1 for none
  std::vector<std::vector<ScoredLabel>> results_;
  std::int64_t labelled_ = 0, right_ = 0;
  std::vector<Classifier::Row> drawn_;  // the first rows, and their lines
  std::vector<std::int64_t> drawn_lines_;
};

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

// Eight significant digits: more than the model's numbers have.
std::string value_cell(double value) { return fmt::format("{:.8g}", value); }

}  // namespace

std::unique_ptr<Answers> class_answers(const RunFolder& run, Backend& backend, const PredictArguments& options) {
  return std::make_unique<ClassAnswers>(run, backend, options);
}

std::vector<Panel> put_forecast(const RunFolder& run, Backend& backend, const PredictArguments& options,
                                RowWriter& writer) {
  const std::string name = options.input.empty() || options.input == "-" ? "stdin" : options.input;
  if (name != options.input && ::isatty(STDIN_FILENO) == 1)
    print_line("reading CSV from the terminal; end with Ctrl-D");
  Activity busy("predicting");
  Forecaster forecaster(run.model.metadata, run.model.tensors, backend);
  const std::int64_t steps = options.horizon.value_or(forecaster.horizon());
  const SeriesEnd end =
      series_end(run.model.metadata, series_file(options.input, name), name, forecaster.history(), steps);
  const Forecaster::Values values = forecaster.predict({&end.values, 1}, steps)[0];
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
      cells.push_back(value_cell(values[i * S + s]));
      object[columns[s + 1]] = Json::parse(cells.back(), nullptr, /*allow_exceptions=*/false);
    }
    if (writer.format() == RowFormat::jsonl) writer.json(object);
    else writer.row(cells);
  }
  return options.svg.empty() ? std::vector<Panel>{} : end_panels(end, values);
}

}  // namespace unroll::cli
