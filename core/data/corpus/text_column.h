// SPDX-License-Identifier: Apache-2.0
// One text column of a table: `predict --column`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "unroll/support/export.h"

namespace unroll {

class UNROLL_API TextColumn {
 public:
  // A column name, or a number from 1. `file` names the input in errors.
  TextColumn(std::string column, std::string file) : column_(std::move(column)), file_(std::move(file)) {}
  // Returns the cell of a line; nothing for the header, which is the first line unless a number names the column. The
  // first line determines the format: JSON objects, cells between tabs, or CSV. Throws Error(input_file) with the line
  // when the cell is missing.
  std::optional<std::string> cell(const std::string& line, std::int64_t number);
  bool begun() const { return begun_; }  // true after a first line with the column

 private:
  void begin(const std::string& line, std::int64_t number);
  enum class Form : std::uint8_t { json, tabs, csv };

  std::string column_, file_;
  bool begun_ = false;
  Form form_ = Form::tabs;
  char separator_ = '\t';
  std::size_t place_ = 0;
};

}  // namespace unroll
