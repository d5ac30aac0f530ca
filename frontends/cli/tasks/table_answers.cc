// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/tasks/table_answers.h"

#include <utility>

#include "core/support/files/paths.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/config/run/job.h"

namespace unroll::cli {

TableAnswers::TableAnswers(const RunFolder& run, const PredictArguments& options)
    : reader_(run.model.metadata, options.input_name()) {
  // The beginning of a pipe can be read only once, so there the first line decides.
  if (options.reads_stdin() || kind_of_path(options.input) != PathKind::file) return;
  reader_.look_at(open_table(options.input));
  for (const std::string& warning : reader_.warnings()) print_progress("warning: " + without_folder(warning));
}

std::vector<std::string> TableAnswers::columns() const {
  std::vector<std::string> all = value_columns();
  all.insert(all.begin(), "row");
  return all;
}

bool TableAnswers::accepts(const InputLine& line) {
  if (std::exchange(is_counted_, false)) waiting_.clear();
  std::optional<FeatureReader::Row> row = reader_.read(line.text, line.number);
  if (!row) return false;
  waiting_.insert_or_assign(line.number, std::move(*row));
  return true;
}

void TableAnswers::predict(const std::vector<InputLine>& lines) {
  std::vector<std::vector<double>> rows;
  rows_.assign(lines.size(), std::nullopt);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].error.empty()) continue;
    rows_[i] = rows.size();
    rows.push_back(waiting_.at(lines[i].number).values);
  }
  predict_rows(rows);
}

void TableAnswers::count(const std::vector<InputLine>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (rows_[i]) count_row(*rows_[i], waiting_.at(lines[i].number), lines[i].number);
  is_counted_ = true;
  n_counted_ += lines.size();
}

}  // namespace unroll::cli
