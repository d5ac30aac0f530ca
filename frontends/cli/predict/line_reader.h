// SPDX-License-Identifier: Apache-2.0
// Reads lines of a file or stdin incrementally. Unpacks gzip files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/data/file/gzip.h"

namespace unroll::cli {

class LineReader {
 public:
  static constexpr std::size_t k_max_line_bytes = std::size_t{1} << 24;

  enum class Unit : std::uint8_t { line, csv_row };
  // "" and "-" are stdin. A CSV row is one line, or several if a quoted cell has line breaks, which the text keeps as
  // \n. Throws Error(input_file) if the file cannot be opened.
  explicit LineReader(const std::string& path, bool skips_blank = true, Unit unit = Unit::line);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Returns false at the end. Removes line endings and byte order marks. Throws Error(input_file) for a line above the
  // limit, which is then skipped, a failed read, or damaged gzip. Also for a first line with another encoding than
  // UTF-8 (core/data/text/encoding.h). A CSV row ends at the limit, in an open quote.
  bool next(std::string& line);
  bool can_go_on() const { return !broken_; }  // false after any error except a line above the limit
  // True if a line, or the end, is available within this time. The rest of a CSV row may come later.
  bool ready(int milliseconds);

  std::int64_t number() const { return number_; }  // of the last line read, from 1; of a CSV row its first line
  const std::string& name() const { return name_; }
  bool is_terminal() const;
  bool is_file() const;
  std::int64_t count_lines() const;  // of a regular uncompressed file; otherwise 0

 private:
  bool take(std::string& line);
  void require_first_line(const std::string& line, bool is_whole);
  void finish_row(std::string& row);
  std::size_t read_piece();  // appends raw file bytes to the buffer and returns their number
  bool fill();  // false at the end
  std::size_t line_end();

  std::string name_;
  int file_;
  bool skips_blank_;
  Unit unit_;
  std::int64_t number_ = 0, n_lines_ = 0;
  std::string buffer_;
  std::size_t at_ = 0, searched_ = 0;  // the next line begins at `at_`; no line ends before `searched_`
  bool begun_ = false, ended_ = false, broken_ = false;
  std::optional<GzipUnpacker> unpacker_;  // for a gzip file
};

}  // namespace unroll::cli
