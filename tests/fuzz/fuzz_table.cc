// SPDX-License-Identifier: Apache-2.0
// Any text is a table of cells or is refused with Error(input_file). Its columns as series, and its rows as records,
// are the same numbers whether they are held or read again from their file.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/data/series/series_rows.h"
#include "core/data/table/csv.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/text_reader.h"
#include "tests/training/csv_table.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

// Returns the result of f, or nothing when it refuses its input.
template <class F>
auto result_of(const F& f, bool* may_be_sorted = nullptr) -> std::optional<decltype(f())> {
  try {
    return f();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file && e.kind() != ErrorKind::usage) std::abort();
    if (may_be_sorted) *may_be_sorted = std::string(e.what()).find("data.memory_limit") != std::string::npos;
    return std::nullopt;
  }
}

std::vector<double> all_of(const SeriesRows& rows, std::int64_t step) {
  std::vector<double> all;
  SeriesPiece piece;
  for (std::int64_t t = 0; t < rows.size(); t += step) {
    rows.read(t, std::min(t + step, rows.size()), piece);
    all.insert(all.end(), piece.levels.begin(), piece.levels.end());
    all.insert(all.end(), piece.observed.begin(), piece.observed.end());
    for (const double value : piece.covariates) all.push_back(std::isnan(value) ? HUGE_VAL : value);
  }
  std::int64_t end = 0;
  for (const SeriesSegment& segment : rows.segments()) {
    if (segment.begin != end || segment.end <= end || segment.n_ahead < 0) std::abort();
    end = segment.end + segment.n_ahead;
  }
  if (end != rows.size()) std::abort();
  return all;
}

void check_series(std::string_view text, const std::vector<std::string>& columns, const std::string& id,
                  const std::vector<CovariateColumn>& covariates = {}) {
  const SeriesFormat format{.columns = columns, .date = {}, .csv = {}, .id = id, .covariates = covariates};
  for (const std::int64_t step : {1000, 3}) {
    const auto held = result_of([&] { return all_of(SeriesRows(RecordFile(text, "fuzz"), format, true), step); });
    bool needs_sorting = false;  // which only a file in memory can have
    const auto again = result_of(
        [&] { return all_of(SeriesRows(testing::read_in_parts(text), format, false), step); }, &needs_sorting);
    if (held != again && !needs_sorting) std::abort();
  }
}

// The cells of a record are those of its row, line breaks among them.
void check_cells(std::string_view text) {
  result_of([&] {
    RecordFile file = testing::read_in_parts(text);
    CsvReader reader("fuzz", 50);
    std::vector<std::vector<std::string>> rows;
    index_rows(file, reader, [&](std::span<const std::string> cells, std::size_t) {
      rows.emplace_back(cells.begin(), cells.end());
    });
    for (std::int64_t r = 0; r < file.size(); ++r)
      if (cells_in(file, reader, file.text(r)) != rows[static_cast<std::size_t>(r)]) std::abort();
    return true;
  });
}

}  // namespace

FUZZ_TARGET(table) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_series(text, {""}, "none");
  check_series(text, {"2", "1"}, "none");
  check_series(text, {"2"}, "1");
  check_series(text, {"2"}, "none", {{"1"}});
  check_series(text, {"2"}, "1", {{"3"}, {"4", /*is_category=*/true}});
  check_cells(text);
  const auto table = result_of([&] {
    const auto t = testing::CsvTable::parse(text, "fuzz", {.max_columns = 50, .max_cells = 10000});
    std::vector<double> numbers;
    for (std::size_t r = 0; r < t.n_rows(); ++r)
      for (std::size_t c = 0; c < t.n_columns(); ++c) numbers.push_back(t.number(r, c));
    return numbers;
  });
  const auto records = result_of([&] {
    RecordFile file = testing::read_in_parts(text);
    CsvReader reader("fuzz", 50);
    index_rows(file, reader, [&](std::span<const std::string> cells, std::size_t line) {
      for (std::size_t c = 0; c < cells.size(); ++c) reader.number(cells[c], line, c);
    });
    std::vector<double> numbers;
    std::vector<std::size_t> columns(reader.n_columns());
    std::iota(columns.begin(), columns.end(), std::size_t{0});
    std::vector<double> row(columns.size());
    for (std::int64_t r = 0; r < file.size(); ++r) {
      numbers_in(file, reader, file.text(r), columns, row);
      numbers.insert(numbers.end(), row.begin(), row.end());
    }
    return numbers;
  });
  if (table && table != records) std::abort();  // a table may be too large where its rows are not
  return 0;
}
