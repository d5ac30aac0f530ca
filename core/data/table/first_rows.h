// SPDX-License-Identifier: Apache-2.0
// Detects the format of a table from its first rows: the header, and decimal commas that were read as separators.
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
// Determines the settings that `format` leaves open from a text's first rows. The reader refuses invalid tables later.
TableForm form_of(std::string_view head, CsvFormat format);

}  // namespace unroll
