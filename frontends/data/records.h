// SPDX-License-Identifier: Apache-2.0
// A data file whose records are read when they are asked for: of each 8 bytes are held, of a small file its text too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/data/lines.h"
#include "unroll/vfs.h"

namespace unroll {

class RecordFile {
 public:
  static constexpr std::size_t k_max_line = std::size_t{1} << 24;  // bytes

  RecordFile(std::string_view text, std::string name);  // a copy is held
  // Of at most `memory_limit` bytes (0: of any size) the text is held. `name` is for messages.
  RecordFile(std::shared_ptr<const Vfs::Reader> file, std::string name, std::size_t memory_limit);

  const std::string& name() const { return name_; }
  // Every line, read in pieces. Throws Error(input_file) on one above k_max_line.
  void for_each_line(const std::function<void(const Line&)>& take) const;
  Lines lines() const {
    return [this](const std::function<void(const Line&)>& take) { for_each_line(take); };
  }

  // The next record begins at byte `at` and goes to where the one after it begins, or to the end of the file.
  void add(std::size_t at) { begins_.push_back(at); }
  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()); }
  std::string text(std::int64_t record) const;  // from any thread
  using Take = std::function<void(std::int64_t record, std::string_view text)>;
  void for_each(std::span<const std::int64_t> records, const Take& take) const;  // numbers that rise; read in pieces
  void for_each(const Take& take) const;                                         // all

  // Error(input_file) about line `within` of a record, from 0, by its number in the file.
  [[noreturn]] void refuse(std::int64_t record, const std::string& what, const std::string& next = {},
                           std::size_t within = 0) const;
  // What a record gave at first it no longer gives.
  [[noreturn]] void refuse_changed() const;

 private:
  std::string read(std::size_t begin, std::size_t end) const;
  std::size_t end_of(std::int64_t record) const;
  void visit(std::int64_t n, const std::function<std::int64_t(std::int64_t)>& which, const Take& take) const;

  std::string name_;
  std::string held_;                           // the text, when there is no file
  std::shared_ptr<const Vfs::Reader> file_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> begins_;          // [records]
};

}  // namespace unroll
