// SPDX-License-Identifier: Apache-2.0
// Predictions for rows of a table.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "frontends/cli/predict/answers.h"
#include "unroll/tasks/predict_tables.h"

namespace unroll::cli {

class TableAnswers : public Answers {
 public:
  TableAnswers(const RunFolder& run, const PredictArguments& options);
  RowFormat usual_format() const override { return RowFormat::csv; }
  LineReader::Unit unit() const override { return LineReader::Unit::csv_row; }
  std::vector<std::string> columns() const override;  // "row" and value_columns()
  bool accepts(const InputLine& line) override;
  // A missing column is missing in every line.
  bool is_about_a_line(const Error& error) const override { return error.kind() == ErrorKind::input_file; }
  void predict(const std::vector<InputLine>& lines) override;
  void count(const std::vector<InputLine>& lines) override;

 protected:
  virtual void predict_rows(const std::vector<std::vector<double>>& rows) = 0;  // see predict
  // Compares the prediction of row k with the target in the file, which may be empty.
  virtual void count_row(std::size_t k, const FeatureReader::Row& row, std::int64_t line) = 0;
  // Returns the row index of line i, or nullopt if the line has an error.
  std::optional<std::size_t> row_of(std::size_t i) const { return rows_[i]; }
  virtual std::vector<std::string> value_columns() const = 0;
  // The number of line i among the rows of the input, from 1.
  std::size_t number_of(std::size_t i) const { return n_counted_ - rows_.size() + i + 1; }

 private:
  FeatureReader reader_;
  std::map<std::int64_t, FeatureReader::Row> waiting_;  // accepted rows that are not counted yet, by line
  bool is_counted_ = false;
  std::size_t n_counted_ = 0;  // lines
  std::vector<std::optional<std::size_t>> rows_;  // by line
};

}  // namespace unroll::cli
