// SPDX-License-Identifier: Apache-2.0
// Detects the format of a table from its first rows: the header, comments, units, and the marks in numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/data/table/csv_lines.h"

namespace unroll {

struct TableForm {
  char separator = ',';
  bool has_header = false;
  std::size_t n_columns = 0;
  std::size_t n_comments = 0;  // lines that begin with #, before the table
  std::string units = {};      // the row below the header that has units; "": none
  NumberMarks marks = {};
  // Lines of Task::notes() and Task::warnings(), without the name of the file.
  std::vector<std::string> notes, warnings;
};
// Determines the settings that `format` leaves open from a text's first rows. The reader refuses invalid tables later.
TableForm form_of(std::string_view head, CsvFormat format);

}  // namespace unroll
