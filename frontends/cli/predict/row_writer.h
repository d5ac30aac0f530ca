// SPDX-License-Identifier: Apache-2.0
// Writes rows of answers as CSV, TSV, JSON lines or plain text, to stdout or atomically to a file.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/files/temporary_files.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {

// Writes to a temporary file beside the target and renames it at the end: a killed process leaves the old file. "" and
// "-" are stdout; other files than regular ones, such as pipes, are written directly.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path, Vfs& vfs = disk());
  ~OutputFile();  // without finish() the temporary file is removed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Throws Error(storage), like the functions below.
  void write(std::string_view text);
  void flush();   // makes the text visible on stdout and pipes
  void finish();
  bool is_stdout() const { return stream_ == stdout; }

 private:
  void write_stream();

  std::string path_, temporary_;
  std::optional<TemporaryFile> named_;
  Vfs& vfs_;
  std::unique_ptr<Vfs::File> file_;
  std::FILE* stream_ = nullptr;
  std::string buffer_;
};

enum class RowFormat { text, csv, tsv, jsonl };
// "csv", "tsv", "jsonl", "text"; for an empty word by the extension of `output`, else `usual`. Throws Error(usage).
RowFormat row_format(const std::string& word, const std::string& output, RowFormat usual);

// Returns one cell, quoted if CSV or TSV readers would otherwise misread it (RFC 4180).
std::string quoted_cell(std::string_view cell, char separator);
// Six significant digits: a probability, a log probability. "" if the value is not finite.
std::string number_cell(double value);
// Returns a predicted number with the fewest digits that read back exactly. Empty if it is not finite.
std::string value_cell(double value);
nlohmann::ordered_json json_number(double value);  // null if the value is not finite

class RowWriter {
 public:
  using Json = nlohmann::ordered_json;
  RowWriter(RowFormat format, OutputFile& file) : format_(format), file_(file) {}

  RowFormat format() const { return format_; }
  bool is_table() const { return format_ == RowFormat::csv || format_ == RowFormat::tsv; }
  void row(std::span<const std::string> cells);  // csv and tsv; also the header
  void json(const Json& object);                 // jsonl: one line; bytes that are not UTF-8 become U+FFFD
  void text(std::string_view text) { file_.write(text); }
  void flush() { file_.flush(); }

 private:
  RowFormat format_;
  OutputFile& file_;
};

}  // namespace unroll::cli
