// SPDX-License-Identifier: Apache-2.0
// Classification of table rows.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "core/support/text/counted.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/table_answers.h"
#include "frontends/cli/tasks/task_row.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

class ClassAnswers : public TableAnswers {
 public:
  ClassAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : TableAnswers(run, options), classifier_(run.model.metadata, run.model.tensors, backend),
        top_k_(std::clamp<std::int64_t>(options.top_k, 1, std::ssize(classifier_.labels()))) {}
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    const std::optional<std::size_t> row = row_of(i);
    const std::vector<ScoredLabel> labels = row ? results_[*row] : std::vector<ScoredLabel>();
    RowWriter::Json object = RowWriter::Json::object();
    object["row"] = number_of(i);
    put_labels(std::move(object), labels, top_k_, line, writer, {fmt::format("{}", number_of(i))});
  }
  std::string summary() const override {
    if (labeled_ == 0) return {};
    const double accuracy = static_cast<double>(right_) / static_cast<double>(labeled_);
    return fmt::format("accuracy {:.4g} on {} with a label", accuracy, counted(labeled_, "row"));
  }
  std::vector<Panel> panels() override {
    std::vector<Panel> panels;
    const auto results = classifier_.predict(drawn_, 0);
    for (std::size_t i = 0; i < results.size(); ++i)
      panels.push_back(probability_panel(fmt::format("Line {}", drawn_lines_[i]), results[i]));
    return panels;
  }

 protected:
  std::vector<std::string> value_columns() const override { return ranking_columns(top_k_); }
  void predict_rows(const std::vector<Classifier::Row>& rows) override { results_ = classifier_.predict(rows, top_k_); }
  void count_row(std::size_t k, const FeatureReader::Row& row, std::int64_t line) override {
    if (drawn_.size() < k_most_drawn) {
      drawn_.push_back(row.values);
      drawn_lines_.push_back(line);
    }
    if (row.targets.empty() || row.targets[0].empty()) return;
    ++labeled_;
    right_ += results_[k][0].label == row.targets[0];
  }

 private:
  Classifier classifier_;
  std::int64_t top_k_;
  std::vector<std::vector<ScoredLabel>> results_;
  std::int64_t labeled_ = 0, right_ = 0;
  std::vector<Classifier::Row> drawn_;  // the first rows, and their input lines
  std::vector<std::int64_t> drawn_lines_;
};

}  // namespace

const TaskRow classify_row = {
    .title = "Classification of sequences",
    .loss = "Loss (nats per sequence)",
    .metrics = {{{"accuracy", "accuracy", true}}},
    .defaults = {{{"model.hidden", 32}, {"train.lr", 0.005}, {"train.max_updates", 300}}},
    .sample = {"patterns.csv", sample_patterns, "data.steps=8", "data.normalize=true"},
    .make = make_of<make_classify, task_options<ClassifyOptions>>,
    .check = check_of<task_options<ClassifyOptions>>,
    .answers = answer_with<ClassAnswers>,
    .counts_confusion = true,
};

}  // namespace unroll::cli
