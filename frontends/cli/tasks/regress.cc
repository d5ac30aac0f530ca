// SPDX-License-Identifier: Apache-2.0
// Regression on table rows.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "core/support/text/counted.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/table_answers.h"
#include "frontends/cli/tasks/task_row.h"

namespace unroll::cli {
namespace {

using Json = RowWriter::Json;

// Returns CSV: 64 values of a noisy wave, then its number of periods.
std::string sample_waves() {
  std::string csv;
  for (std::uint64_t i = 0; i < 900; ++i) {
    const double periods = 1 + 3 * sample_uniform(2000000 + i), phase = 2 * std::numbers::pi * sample_uniform(i);
    for (std::uint64_t j = 0; j < 64; ++j) {
      const double wave = std::sin(2 * std::numbers::pi * periods * static_cast<double>(j) / 64 + phase);
      csv += fmt::format("{:.3f},", wave + 0.4 * (sample_uniform(64 * i + j + 10000) - 0.5));
    }
    csv += fmt::format("{:.3f}\n", periods);
  }
  return csv;
}

class ValueAnswers : public TableAnswers {
 public:
  ValueAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : TableAnswers(run, options), regressor_(run.model.metadata, run.model.tensors, backend) {}
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    const std::optional<std::size_t> row = row_of(i);
    const std::vector<std::string>& targets = regressor_.targets();
    std::vector<std::string> cells(targets.size());
    for (std::size_t k = 0; k < cells.size() && row; ++k) cells[k] = value_cell(results_[*row][k]);
    if (writer.format() == RowFormat::text) return writer.text(fmt::format("{}\n", fmt::join(cells, "\t")));
    if (writer.is_table()) {
      cells.insert(cells.begin(), fmt::format("{}", number_of(i)));
      return writer.row(cells);
    }
    Json object = Json::object();
    object["row"] = number_of(i);
    for (std::size_t k = 0; k < cells.size(); ++k)
      object[targets[k]] = row ? Json::parse(cells[k]) : Json();
    put_json(std::move(object), line, writer);
  }
  std::string summary() const override {
    if (compared_ == 0) return {};
    const auto n = static_cast<double>(compared_);
    return fmt::format("mae {:.4g}, rmse {:.4g} on {} with targets", absolute_ / n, std::sqrt(square_ / n),
                       counted(rows_compared_, "row"));
  }

 protected:
  std::vector<std::string> value_columns() const override { return regressor_.targets(); }
  void predict_rows(const std::vector<Regressor::Row>& rows) override { results_ = regressor_.predict(rows); }
  void count_row(std::size_t row, const FeatureReader::Row& given, std::int64_t) override {
    bool compared = false;
    for (std::size_t k = 0; k < given.targets.size(); ++k) {
      const std::string& text = given.targets[k];
      double target = 0;
      if (std::from_chars(text.data(), text.data() + text.size(), target).ec != std::errc()) continue;
      const double error = results_[row][k] - target;
      absolute_ += std::fabs(error);
      square_ += error * error;
      ++compared_;
      compared = true;
    }
    rows_compared_ += compared;
  }

 private:
  Regressor regressor_;
  std::vector<std::vector<double>> results_;
  std::int64_t rows_compared_ = 0, compared_ = 0;
  double absolute_ = 0, square_ = 0;
};

}  // namespace

const TaskRow regress_row = {
    .title = "Regression of sequences",
    .loss = "Loss (squared error, standardized)",
    .metrics = {{{"r2", "R²", true}, {"mae", "MAE"}}},
    .defaults = {{{"model.hidden", 32}, {"train.lr", 0.005}, {"train.max_updates", 300}}},
    .sample = {"waves.csv", sample_waves, "data.steps=8", "data.normalize=true"},
    .make = make_of<make_regress, task_options<RegressOptions>>,
    .check = check_of<task_options<RegressOptions>>,
    .answers = answer_with<ValueAnswers>,
    .undrawn = "there is no picture of the numbers for rows",
    .undrawn_hint = "`unroll eval {}` compares them with their mean",
    .draws_examples = false,
};

}  // namespace unroll::cli
