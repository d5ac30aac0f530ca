// SPDX-License-Identifier: Apache-2.0
// Data files with records that are read on demand. Memory holds 8 bytes per record, and the text of small files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/file/lines.h"
#include "unroll/support/vfs.h"

namespace unroll {

class RecordFile {
 public:
  static constexpr std::size_t k_max_line = std::size_t{1} << 24;  // bytes

  RecordFile(std::string_view text, std::string name);  // keeps a copy
  // Keeps the text in memory if it has at most `memory_limit` bytes (0: any size). `name` is for messages.
  RecordFile(std::shared_ptr<const Vfs::Reader> file, std::string name, std::size_t memory_limit);
  // Appends a file. All files have the memory limit of the first.
  void append(std::shared_ptr<const Vfs::Reader> file, std::string name);

  std::size_t n_files() const { return parts_.size(); }
  const std::string& name(std::size_t file = 0) const { return parts_[file].name; }
  // Calls `take` for every line of a file, read in pieces. Line::at counts from the start of the first file. Throws
  // Error(input_file) on a line above k_max_line.
  void for_each_line(const std::function<void(const Line&)>& take, std::size_t file = 0) const;
  // Returns these lines; the file must pass require_text_at_start.
  Lines lines(std::size_t file = 0) const;
  // Throws Error(input_file) on a file whose first bytes show that it is not UTF-8 text.
  void require_text_at_start(std::size_t file) const;

  // Adds a record that begins at byte `at`. It ends at the start of the next record or at the end of its file. Add
  // records in order.
  void add(std::size_t at) { begins_.push_back(at); }
  std::vector<std::int64_t> records_of(std::size_t file) const;
  std::vector<std::size_t> line_numbers() const;  // of each record in its file, from 1
  std::int64_t size() const { return std::ssize(begins_); }
  std::string text(std::int64_t record) const;  // from any thread
  // Returns the first whole lines of a file: at most 1 MiB, unless the first line is longer.
  std::string head(std::size_t file = 0) const;
  using Take = std::function<void(std::int64_t record, std::string_view text)>;
  void for_each(std::span<const std::int64_t> records, const Take& take) const;  // ascending; read in pieces
  void for_each(const Take& take) const;                                         // all

  // Throws Error(input_file) about line `within` of a record (from 0), by its line number in the file.
  [[noreturn]] void refuse(std::int64_t record, const std::string& what, const std::string& next = {},
                           std::size_t within = 0) const;
  // Throws an error: the record differs from the first read.
  [[noreturn]] void refuse_changed() const;

 private:
  struct Part {
    std::string name;
    std::string held;  // the text, if there is no file
    std::shared_ptr<const Vfs::Reader> file;
    std::size_t begin, size;
  };
  const Part& part_at(std::size_t at) const;
  std::string read(std::size_t begin, std::size_t end) const;  // of one part
  std::size_t end_of(std::int64_t record) const;
  void visit(std::int64_t n, const std::function<std::int64_t(std::int64_t)>& which, const Take& take) const;

  std::vector<Part> parts_;
  std::size_t memory_limit_ = 0;
  std::vector<std::uint64_t> begins_;  // [records]
};

}  // namespace unroll
