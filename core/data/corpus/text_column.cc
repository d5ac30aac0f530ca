// SPDX-License-Identifier: Apache-2.0
#include "core/data/corpus/text_column.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "core/data/file/json_line.h"
#include "core/data/file/lines.h"
#include "core/data/table/csv.h"
#include "core/support/text/counted.h"

namespace unroll {
namespace {

std::vector<std::string> cells_of(const std::string& line, char separator, bool quoted) {
  std::vector<std::string> cells;
  if (quoted && split_csv_line(line, separator, cells) == std::string::npos) return cells;
  return cells_between(line, separator);
}

}  // namespace

void TextColumn::begin(const std::string& line, std::int64_t number) {
  form_ = line.starts_with('{') ? Form::json : line.find('\t') != std::string::npos ? Form::tabs : Form::csv;
  if (form_ == Form::csv) separator_ = separator_of(line);
  const auto [end, error] = std::from_chars(column_.data(), column_.data() + column_.size(), place_);
  const bool is_number = error == std::errc() && end == column_.data() + column_.size() && place_ >= 1;
  if (form_ == Form::json) return;
  if (is_number) {
    --place_;
    return;
  }
  const std::vector<std::string> names = cells_of(line, separator_, form_ == Form::csv);
  const auto at = std::find_if(names.begin(), names.end(), [&](const std::string& n) { return trimmed(n) == column_; });
  if (at == names.end())
    refuse_line(file_, number, "the header has no column '" + column_ + "'",
                "Write one of its names, or a number from 1 for a file without a header");
  place_ = at - names.begin();
}

std::optional<std::string> TextColumn::cell(const std::string& line, std::int64_t number) {
  const bool first = !begun_;
  if (first) {
    begin(line, number);
    begun_ = true;
  }
  if (form_ == Form::json) {
    if (line.empty()) return "";
    return text_of_member(json_members(line, file_, number), column_, file_, number);
  }
  std::vector<std::string> cells = cells_of(line, separator_, form_ == Form::csv);
  if (first && place_ < cells.size() && trimmed(cells[place_]) == column_) return std::nullopt;  // the header
  if (line.empty()) return "";
  if (place_ >= cells.size())
    refuse_line(file_, number, "has " + counted(cells.size(), "cell") + ", none for column '" + column_ + "'");
  return std::move(cells[place_]);
}

}  // namespace unroll
