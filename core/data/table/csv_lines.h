// SPDX-License-Identifier: Apache-2.0
// Text of comma-separated values: the format of a file, the lines of a row, the cells of a row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/batch/records.h"
#include "core/data/text/cell_number.h"

namespace unroll {

struct CsvFormat {
  enum class Header : std::uint8_t { automatic, yes, no };
  char separator = 0;  // 0: the first of tab, semicolon or comma that occurs in the first line
  Header header = Header::automatic;  // automatic: form_of (first_rows.h) decides
  std::optional<char> decimal = {}, thousands = {};  // marks in numbers, 0: none; nothing: form_of decides
  std::vector<std::string> missing = {};  // words for missing values, in any letter case; numbers in any notation
  std::vector<std::string> names = {};    // columns of a model: a first line with all of them is a header

  // True for an empty cell, NaN with any sign, or one of the words.
  bool is_missing(std::string_view cell) const;
  // Parses the config keys data.header, data.separator, data.missing_values, data.decimal and data.thousands. Throws
  // Error(usage).
  static CsvFormat of(const std::string& header, const std::string& separator,
                      const std::vector<std::string>& missing_values, const std::string& decimal = "auto",
                      const std::string& thousands = "auto");
};

std::string listed(std::span<const std::string> names);  // "a, b, c"; for long lists the first names and the count
std::string lowered(std::string_view cell);  // trimmed, in lower case
bool is_csv_name(std::string_view file);      // ends in .csv or .csv.gz
inline constexpr const char* k_close_quotes = "Close each quoted cell; write \"\" for a quote in it";
// Returns the first tab or semicolon outside quotes in a line, otherwise a comma.
char separator_of(std::string_view line);
// Splits a row and appends its cells. Returns the index of a cell with a misplaced quote, or npos. `quoted`: true for
// cells in quotes.
std::size_t split_csv_line(std::string_view row, char separator, std::vector<std::string>& cells,
                           std::vector<bool>* quoted = nullptr);

// Joins lines to rows: a line that ends inside a quoted cell continues on the next line (RFC 4180). Line breaks within
// a cell become \n.
class CsvRows {
 public:
  // Maximum row size. Longer rows end here, and the reader refuses the open quote.
  static constexpr std::size_t k_max_row = RecordFile::k_max_line;  // bytes

  // Returns the row completed by this line, with the number and position of its first line; nothing for an open row.
  // The text belongs to `line`, or to this object until its next call.
  std::optional<Line> add(const Line& line);
  // Returns the last row if its quote is still open; call at the end of the text.
  std::optional<Line> rest();

 private:
  std::string joined_;
  Line first_{};
  bool open_ = false;
};
// Joins lines to rows.
Lines csv_rows(Lines lines);
// Returns the first row of a text.
std::string first_csv_row(std::string_view text);

}  // namespace unroll
