// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/predict/row_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/support/files/file_errors.h"
#include "core/support/files/paths.h"
#include "frontends/cli/terminal/standard_files.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

constexpr std::size_t k_buffer = std::size_t{1} << 16;

struct WrittenRow {
  std::string_view word;
  RowFormat format;
};
constexpr WrittenRow k_written_formats[] = {
    {"text", RowFormat::text}, {"csv", RowFormat::csv}, {"tsv", RowFormat::tsv}, {"jsonl", RowFormat::jsonl}};

}  // namespace

OutputFile::OutputFile(const std::string& path, Vfs& vfs) : path_(path), vfs_(vfs) {
  if (path.empty() || path == "-") {
    stream_ = stdout;
    return;
  }
  const PathKind kind = kind_of_path(path, ErrorKind::storage);
  if (kind == PathKind::folder)
    throw Error(ErrorKind::usage, "--output", fmt::format("'{}' is a folder", path), "Name a file in it");
  if (kind == PathKind::other) {
    stream_ = std::fopen(path_.c_str(), "wb");
    if (!stream_) throw file_error(ErrorKind::storage, path, "open for writing", errno);
    return;
  }
  path_ = without_links(path);
  temporary_ = temporary_path(path_);
  named_.emplace(temporary_);
  file_ = vfs_.create(temporary_);
}

OutputFile::~OutputFile() {
  if (stream_ && stream_ != stdout) std::fclose(stream_);
  if (!file_) return;
  file_.reset();
  try {
    vfs_.remove(temporary_);
  } catch (const Error&) {  // report the original error
  }
}

void OutputFile::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() < k_buffer) return;
  if (file_) file_->write(std::as_bytes(std::span(buffer_)));
  else write_stream();
  buffer_.clear();
}

void OutputFile::write_stream() {
  if (is_stdout()) write_output(buffer_);
  else if (std::fwrite(buffer_.data(), 1, buffer_.size(), stream_) != buffer_.size())
    throw file_error(ErrorKind::storage, path_, "write", errno);
}

void OutputFile::flush() {
  if (file_) return;  // readers only see the complete file
  write_stream();
  buffer_.clear();
  if (is_stdout()) flush_output();
  else if (std::fflush(stream_) != 0) throw file_error(ErrorKind::storage, path_, "write", errno);
}

void OutputFile::finish() {
  if (!file_) return flush();
  file_->write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
  file_->sync();
  file_->close();
  vfs_.rename(temporary_, path_);
  named_.reset();
  file_.reset();
  vfs_.sync_folder(std::filesystem::path(path_).parent_path().string());
}

RowFormat row_format(const std::string& word, const std::string& output, RowFormat usual) {
  for (const WrittenRow& row : k_written_formats)
    if (row.word == word) return row.format;
  if (!word.empty())
    throw Error(ErrorKind::usage, "--format", fmt::format("expected csv, tsv, jsonl or text; got '{}'", word));
  for (const WrittenRow& row : k_written_formats)
    if (row.format != RowFormat::text && output.ends_with("." + std::string(row.word))) return row.format;
  return output.ends_with(".json") ? RowFormat::jsonl : usual;
}

std::string quoted_cell(std::string_view cell, char separator) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  const bool plain = cell.find_first_of("\"\r\n") == std::string_view::npos &&
                     cell.find(separator) == std::string_view::npos &&
                     (cell.empty() || (!is_blank(cell.front()) && !is_blank(cell.back())));
  if (plain) return std::string(cell);
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

std::string number_cell(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : ""; }

std::string value_cell(double value) {
  if (!std::isfinite(value)) return {};
  const double size = std::fabs(value);
  const bool is_usual = size == 0 || (size >= 1e-5 && size < 1e16);  // 1000000 instead of 1e+06
  char text[64];
  const auto end = is_usual ? std::to_chars(text, text + sizeof text, value, std::chars_format::fixed).ptr
                            : std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

nlohmann::ordered_json json_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return nlohmann::ordered_json::parse(number_cell(value));
}

void RowWriter::row(std::span<const std::string> cells) {
  const char separator = format_ == RowFormat::tsv ? '\t' : ',';
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += separator;
    line += quoted_cell(cells[i], separator);
  }
  if (line.empty()) line = "\"\"";  // readers would skip a blank line
  file_.write(line + "\n");
}

void RowWriter::json(const Json& object) {
  file_.write(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace unroll::cli
