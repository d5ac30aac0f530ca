// SPDX-License-Identifier: Apache-2.0
// Classes of the rows of a table.
#include <fmt/format.h>

#include <deque>
#include <optional>

#include "core/support/text/counted.h"
#include "frontends/cli/answers/answers.h"
#include "frontends/cli/measure/sample_data.h"
#include "frontends/cli/page/pictures.h"
#include "frontends/cli/tasks/task_row.h"
#include "unroll/error.h"
#include "unroll/predict_tables.h"

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

}  // namespace

const TaskRow classify_row = {
    .title = "Classification of sequences",
    .loss = "Loss (nats per sequence)",
    .metrics = {{{"accuracy", "accuracy", true}}},
    .sample = {"patterns.csv",
               sample_patterns,
               {"data.steps=8", "model.hidden=32", "train.lr=0.005", "train.max_updates=300"},
               {"data.steps=0", "data.normalize=true"}},
    .make = make_of<ClassifyOptions, Task, make_classify, task_options<ClassifyOptions>>,
    .check = check_of<task_options<ClassifyOptions>>,
    .answers = answer_with<ClassAnswers>,
    .counts_confusion = true,
};

}  // namespace unroll::cli
