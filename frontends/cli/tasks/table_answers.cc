// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/tasks/table_answers.h"

#include <utility>

namespace unroll::cli {

TableAnswers::TableAnswers(const RunFolder& run, const PredictArguments& options)
    : reader_(run.model.metadata, options.input.empty() || options.input == "-" ? "stdin" : options.input) {}

bool TableAnswers::accepts(const InputLine& line) {
  std::optional<FeatureReader::Row> row = reader_.read(line.text, line.number);
  if (!row) return false;
  waiting_.push_back(std::move(*row));
  return true;
}

void TableAnswers::predict(const std::vector<InputLine>& lines) {
  std::vector<std::vector<double>> rows;
  std::vector<std::vector<std::string>> targets;
  std::vector<std::int64_t> numbers;
  rows_.assign(lines.size(), std::nullopt);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].error.empty()) continue;
    rows_[i] = rows.size();
    rows.push_back(std::move(waiting_.front().values));
    targets.push_back(std::move(waiting_.front().targets));
    numbers.push_back(lines[i].number);
    waiting_.pop_front();
  }
  predict_rows(rows, targets, numbers);
}

}  // namespace unroll::cli
