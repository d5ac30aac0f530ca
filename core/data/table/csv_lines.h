// SPDX-License-Identifier: Apache-2.0
// Comma-separated values as text: the format of a file, lines that make up a row, a row as cells.
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
  char separator = 0;  // 0: tab, semicolon or comma, the first of them that the first line has
  Header header = Header::automatic;  // automatic: form_of (first_rows.h) decides
  std::vector<std::string> missing = {};  // words for missing values, in capitals or not; of numbers any notation
  std::vector<std::string> names = {};    // columns that a model has: a first line that has them all is a header

  // An empty cell, NaN with any sign, or one of the words.
  bool is_missing(std::string_view cell) const;
  // Of the keys in section data of these names. Throws Error(usage).
  static CsvFormat of(const std::string& header, const std::string& separator,
                      const std::vector<std::string>& missing_values);
};

std::string listed(std::span<const std::string> names);  // "a, b, c"; of many the first ones and how many
std::string lowered(std::string_view cell);  // trimmed, in small letters
bool is_csv_name(std::string_view file);      // ends in .csv or .csv.gz
inline constexpr const char* k_close_quotes = "Close each quoted cell; write \"\" for a quote in it";
// The first of tab and semicolon outside quotes in a line, else a comma.
char separator_of(std::string_view line);
// A row into cells, appended; returns the index of the cell with a quote out of place, or npos. `quoted`: which cells
// stood in quotes.
std::size_t split_csv_line(std::string_view row, char separator, std::vector<std::string>& cells,
                           std::vector<bool>* quoted = nullptr);

// Puts lines together to rows: a line that ends inside a quoted cell goes on with the next one (RFC 4180). Line breaks
// within a cell become \n.
class CsvRows {
 public:
  // Above it a row ends. A reader then refuses its open quote.
  static constexpr std::size_t k_max_row = RecordFile::k_max_line;  // bytes

  // The row that this line completes, with the number and place of its first line; nothing when it goes on. The text is
  // that of `line`, or of this object until its next call.
  std::optional<Line> add(const Line& line);
  // At the end of the text: the row whose quote stayed open, if there is one.
  std::optional<Line> rest();

 private:
  std::string joined_;
  Line first_{};
  bool open_ = false;
};
// The rows of such lines.
Lines csv_rows(Lines lines);
// The row that a text begins with.
std::string first_csv_row(std::string_view text);

}  // namespace unroll
