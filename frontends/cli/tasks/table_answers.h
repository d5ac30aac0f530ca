// SPDX-License-Identifier: Apache-2.0
// Answers to rows of a table.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "frontends/cli/answers/answers.h"
#include "unroll/trained/predict_tables.h"

namespace unroll::cli {

class TableAnswers : public Answers {
 public:
  TableAnswers(const RunFolder& run, const PredictArguments& options);
  RowFormat usual_format() const override { return RowFormat::csv; }
  LineReader::Unit unit() const override { return LineReader::Unit::csv_row; }
  bool accepts(const InputLine& line) override;
  // A column that is not there is missing in every line.
  bool is_about_a_line(const Error& error) const override { return error.kind() == ErrorKind::input_file; }
  void predict(const std::vector<InputLine>& lines) override;

 protected:
  // Replaces the predictions of the call before. `targets`: what the file says of each row, in which it may be empty.
  virtual void predict_rows(const std::vector<std::vector<double>>& rows,
                            const std::vector<std::vector<std::string>>& targets,
                            const std::vector<std::int64_t>& lines) = 0;
  // Which of these rows line i is; nothing where it has an error.
  std::optional<std::size_t> row_of(std::size_t i) const { return rows_[i]; }

 private:
  FeatureReader reader_;
  std::deque<FeatureReader::Row> waiting_;  // rows that were accepted and not predicted yet
  std::vector<std::optional<std::size_t>> rows_;  // by line
};

}  // namespace unroll::cli
