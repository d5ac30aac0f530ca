// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/csv_lines.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

std::string lowered(std::string_view cell) {
  std::string small(trimmed(cell));
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

bool is_csv_name(std::string_view file) {
  if (file.ends_with(".gz")) file.remove_suffix(3);
  return file.ends_with(".csv") || file.ends_with(".CSV");
}

bool CsvFormat::is_missing(std::string_view cell) const {
  cell = trimmed(cell);
  if (cell.empty()) return true;
  const auto begins_number = [](std::string_view text) {
    return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-' || text[0] == '+' ||
                             text[0] == '.');
  };
  const bool has_numbers = std::any_of(missing.begin(), missing.end(), begins_number);
  const bool may_be_nan = cell.find_first_of("nN") != std::string_view::npos;
  if (begins_number(cell) && !has_numbers && !may_be_nan) return false;  // the most common case
  const auto is_word = [&](const std::string& word) {
    return std::equal(cell.begin(), cell.end(), word.begin(), word.end(),
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  if (std::any_of(missing.begin(), missing.end(), is_word)) return true;
  const std::optional<double> number = may_be_nan || has_numbers ? number_in(cell) : std::nullopt;
  if (!number) return false;
  return std::isnan(*number) || std::any_of(missing.begin(), missing.end(),
                                            [&](const std::string& word) { return number_in(word) == number; });
}

CsvFormat CsvFormat::of(const std::string& header, const std::string& separator,
                        const std::vector<std::string>& missing_values, const std::string& decimal,
                        const std::string& thousands) {
  CsvFormat format;
  if (decimal != "auto") format.decimal = decimal == "," ? ',' : '.';
  if (thousands != "auto") format.thousands = thousands == "none" ? '\0' : thousands == "space" ? ' ' : thousands[0];
  if (format.decimal.value_or('.') == format.thousands.value_or(0))
    throw Error(ErrorKind::usage, "thousands", "is the decimal mark too: " + in_quotes(thousands),
                "Set data.decimal to the other mark");
  format.missing = missing_values;
  if (header == "yes") format.header = Header::yes;
  else if (header == "no") format.header = Header::no;
  else if (header != "auto")
    throw Error(ErrorKind::usage, "header", "must be auto, yes or no; got " + in_quotes(header));
  if (separator == "tab") format.separator = '\t';
  else if (separator.size() == 1 && separator[0] != '"' && separator[0] != '\n' && separator[0] != '\r')
    format.separator = separator[0];
  else if (!separator.empty())
    throw Error(ErrorKind::usage, "separator", "must be one character; got " + in_quotes(separator),
                "Write for example \",\", \";\" or \"tab\"");
  return format;
}

namespace {

// Reads a quoted cell; `at` moves from its opening quote past the closing one. False if the cell is not closed.
bool read_quoted(std::string_view line, std::size_t& at, std::string& cell) {
  for (++at; at < line.size(); ++at) {
    if (line[at] != '"') {
      cell.push_back(line[at]);
    } else if (at + 1 < line.size() && line[at + 1] == '"') {
      cell.push_back(line[at++]);
    } else {
      ++at;
      return true;
    }
  }
  return false;
}

bool has_odd_quotes(std::string_view text) { return std::count(text.begin(), text.end(), '"') % 2 == 1; }

}  // namespace

// A row with an odd number of quotes ends inside a quoted cell, or has a misplaced quote that the split refuses.
std::optional<Line> CsvRows::add(const Line& line) {
  const bool odd = has_odd_quotes(line.text);
  if (!open_ && !odd) return line;
  if (!open_) {
    first_ = line;
    joined_ = line.text;
  } else {
    joined_ += '\n';
    joined_ += line.text;
  }
  open_ = open_ != odd;
  if (open_ && joined_.size() <= k_max_row) return std::nullopt;
  open_ = false;
  return Line{joined_, first_.number, first_.at};
}

std::optional<Line> CsvRows::rest() {
  if (!std::exchange(open_, false)) return std::nullopt;
  return Line{joined_, first_.number, first_.at};
}

Lines csv_rows(Lines lines) {
  return [lines = std::move(lines)](const std::function<void(const Line&)>& take) {
    CsvRows rows;
    lines([&](const Line& line) {
      if (const std::optional<Line> row = rows.add(line)) take(*row);
    });
    if (const std::optional<Line> row = rows.rest()) take(*row);
  };
}

std::string first_csv_row(std::string_view text) {
  const std::string_view line = first_line(text);
  if (!has_odd_quotes(line)) return std::string(line);
  std::optional<std::string> first;
  csv_rows(lines_of(text))([&](const Line& row) {
    if (!first) first = row.text;
  });
  return std::move(*first);
}

std::size_t split_csv_line(std::string_view line, char separator, std::vector<std::string>& cells,
                           std::vector<bool>* quoted) {
  for (std::size_t at = 0;; ++at) {
    std::string cell;
    if (quoted) quoted->push_back(at < line.size() && line[at] == '"');
    if (at < line.size() && line[at] == '"') {
      if (!read_quoted(line, at, cell) || (at < line.size() && line[at] != separator)) return cells.size();
    } else {
      const std::size_t end = std::min(line.find(separator, at), line.size());
      cell = line.substr(at, end - at);
      if (cell.find('"') != std::string::npos) return cells.size();
      at = end;
    }
    cells.push_back(std::move(cell));
    if (at >= line.size()) return std::string::npos;
  }
}

std::string listed(std::span<const std::string> names) {
  constexpr std::size_t k_shown = 8;
  std::string text;
  for (const std::string& name : names.first(std::min(names.size(), k_shown)))
    text += (text.empty() ? "" : ", ") + name;
  return names.size() > k_shown ? text + ", ... (" + std::to_string(names.size()) + ")" : text;
}

char separator_of(std::string_view line) {
  for (const char separator : {'\t', ';'}) {
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == separator && !quoted) return separator;
    }
  }
  return ',';
}

}  // namespace unroll
