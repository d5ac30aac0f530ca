// SPDX-License-Identifier: Apache-2.0
// What the first rows of a table say about its form: whether the first line has column names, and whether cells look
// like numbers whose decimal comma was taken for a separator.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/data/table/csv_lines.h"

namespace unroll {

struct TableForm {
  char separator = ',';
  bool has_header = false;
  // Lines of Task::notes() and Task::warnings(), without the name of the file.
  std::vector<std::string> notes, warnings;
};
// Of the rows that a text begins with: what `format` leaves open. A text that is no table is refused where it is read.
TableForm form_of(std::string_view head, CsvFormat format);

}  // namespace unroll
