// SPDX-License-Identifier: Apache-2.0
// The format of a training file in a model's metadata. Files for the model are later read in the same way.
//   header          "1" or "0": presence of a header
//   separator       its separator
//   file_columns    its number of columns
//   data.header, data.separator, missing_values   the settings of the config
//   data.decimal, data.thousands   the marks in its numbers, as in the config
#pragma once

#include "core/data/table/csv.h"
#include "core/data/text/entry_lines.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

template <class TableOptions>
void put_table_form(Metadata& m, const CsvReader& reader, const TableOptions& options) {
  m["header"] = reader.header().empty() ? "0" : "1";
  m["separator"] = std::string(1, reader.separator());
  m["file_columns"] = std::to_string(reader.n_columns());
  m["data.header"] = options.header;
  m["data.separator"] = options.separator;
  m["data.decimal"] = std::string(1, reader.marks().decimal);
  m["data.thousands"] = thousands_text(reader.marks());
  m["missing_values"] = entry_lines(options.missing_values);
}
template <class TableOptions>
CsvFormat csv_format(const TableOptions& o) {
  return CsvFormat::of(o.header, o.separator, o.missing_values, o.decimal, o.thousands);
}
// `columns`: the columns that the model reads.
CsvFormat format_as_trained(const Metadata& metadata, const std::vector<std::string>& columns);
KnownTable known_table(const Metadata& metadata);

}  // namespace unroll
