// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/table/known_table.h"

#include <algorithm>

#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/error.h"

namespace unroll {

namespace {

// Not CsvReader::column(), which would take the name "7" of a column that is missing for the seventh column.
std::size_t named(const CsvReader& reader, const std::string& name) {
  std::size_t n = 0, found = 0;
  for (std::size_t c = 0; c < reader.n_columns(); ++c) {
    // Older models have the name "" for a column whose cell of the header is empty.
    if (reader.header()[c] != name && reader.column_name(c) != name) continue;
    found = c;
    ++n;
  }
  if (n == 1) return found;
  if (n > 1) return reader.column(name);  // refuses
  throw Error(ErrorKind::usage, reader.name(), "has no column " + in_quotes(name) + ", which the model reads",
              "Columns: " + reader.names());
}

std::size_t numbered(const CsvReader& reader, const std::string& number) {
  const double place = number_in(number).value_or(0);
  if (place >= 1 && place <= static_cast<double>(reader.n_columns())) return static_cast<std::size_t>(place) - 1;
  throw Error(ErrorKind::usage, reader.name(),
              "has " + counted(reader.n_columns(), "column") + "; the model reads column " + in_quotes(number),
              "Give every row all columns of the training file");
}

// The place of a column among those that a file has alone.
std::size_t alone(std::span<const std::string> columns, std::size_t k, const KnownTable& known) {
  if (known.has_header) return k;
  const double number = number_in(columns[k]).value_or(0);
  return static_cast<std::size_t>(std::ranges::count_if(
      columns, [&](const std::string& other) { return number_in(other).value_or(0) < number; }));
}

[[noreturn]] void refuse_places(const CsvReader& reader, std::span<const std::string> columns,
                                const KnownTable& known) {
  const std::string has = "has " + counted(reader.n_columns(), "column");
  const std::string alone = counted(columns.size(), "column");
  if (known.has_header)
    throw Error(ErrorKind::usage, reader.name(),
                has + " and no header line; the model finds its columns by name: " + listed(columns),
                "Begin the file with the header of the training file, or give only the " + alone +
                    " that the model reads, in this order");
  throw Error(ErrorKind::usage, reader.name(),
              has + "; the training file had " + std::to_string(known.n_columns) +
                  " and no header, so that columns are found by their places",
              "Give the columns of the training file, or only the " + alone + " that the model reads");
}

}  // namespace

std::vector<std::size_t> places_in(const CsvReader& reader, std::span<const std::string> columns,
                                   const KnownTable& known) {
  const bool by_name = known.has_header && !reader.header().empty();
  const auto n_columns = static_cast<std::int64_t>(reader.n_columns());
  const bool are_alone = !by_name && reader.n_columns() == columns.size();
  const bool are_all = !known.has_header && (known.n_columns == 0 || known.n_columns == n_columns);
  if (!by_name && !are_alone && !are_all) refuse_places(reader, columns, known);
  std::vector<std::size_t> places;
  for (std::size_t k = 0; k < columns.size(); ++k)
    places.push_back(by_name     ? named(reader, columns[k])
                     : are_alone ? alone(columns, k, known)
                                 : numbered(reader, columns[k]));
  return places;
}

}  // namespace unroll
