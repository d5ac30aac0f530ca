// SPDX-License-Identifier: Apache-2.0
// Numbers that come line by line, as they come: each line is one step of a stream.
#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace unroll::cli {

// Exactly values.size() finite numbers, apart by commas, semicolons or white space. Throws Error(input_file) naming
// file, line and column.
void parse_numbers(std::string_view line, std::span<float> values, const std::string& file, std::int64_t number);

// Lines of a file or of stdin ("-"), without waiting for more than one line.
class LineReader {
 public:
  // Throws Error(input_file) when the file cannot be opened.
  explicit LineReader(const std::string& path, bool skips_blank = true);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // False at the end. Throws Error(input_file) on a line above the limit or a failed read.
  bool next(std::string& line);
  std::int64_t number() const { return number_; }  // of the line last read, from 1
  const std::string& name() const { return name_; }

 private:
  static constexpr std::size_t k_max_line_bytes = std::size_t{1} << 24;
  std::string name_;
  std::FILE* file_;
  bool skips_blank_;
  std::int64_t number_ = 0;
};

}  // namespace unroll::cli
