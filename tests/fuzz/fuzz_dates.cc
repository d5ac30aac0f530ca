// SPDX-License-Identifier: Apache-2.0
// A cell is a date that is written back to the same moment, or none. Steps lead from one date to the other and back,
// and a series of any dates is read or refused.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/dates/date_format.h"
#include "core/data/file/lines.h"
#include "core/data/series/series_rows.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/text_reader.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

void check_steps(Timestamp from, Timestamp to) {
  for (const DateStep step :
       {DateStep{k_day, 0}, {60 * k_second, 0}, {0, 1}, {0, 1, 28}, {0, 12, 30}, {0, 1, 31, DateStep::k_business_days},
        {k_day, 0, 31, DateStep::k_business_days, 1}, {60 * k_second, 0, 31, 0x15, 700, 8 * 3600 * k_second}}) {
    const auto n = steps_between(from, to, step);
    if (!n || *n < 0) continue;
    if (after(from, *n, step) != to) std::abort();
    if (steps_between(from, after(from, *n, step), step) != *n) std::abort();
  }
}

// Returns nothing where only a file in memory can be sorted.
std::optional<std::vector<double>> rows_of(RecordFile file, bool hold) {
  std::vector<double> all;
  SeriesPiece piece;
  try {
    const SeriesRows rows(std::move(file), {.columns = {"2"}, .date = {"1", ""}, .csv = {}}, hold);
    for (std::int64_t t = 0; t < rows.size(); t += 7) {
      rows.read(t, std::min<std::int64_t>(t + 7, rows.size()), piece);
      all.insert(all.end(), piece.levels.begin(), piece.levels.end());
      all.insert(all.end(), piece.observed.begin(), piece.observed.end());
    }
    if (rows.size() > 4 * static_cast<std::int64_t>(all.size()) + 20) std::abort();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file && e.kind() != ErrorKind::usage) std::abort();
    if (!hold && std::string(e.what()).find("data.memory_limit") != std::string::npos) return std::nullopt;
  }
  return all;
}

}  // namespace

FUZZ_TARGET(dates) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Timestamp last;
  std::string csv;
  lines_of(text)([&](const Line& line) {
    csv += std::string(line.text) + "," + std::to_string(line.number) + "\n";
    for (const DateReading& date : date_readings(line.text, DateNumbers::yes)) {
      const auto again = read_date(date_text(date.at, date.format), date.format);
      if (!again || again->at != date.at || again->format.pattern != date.format.pattern) std::abort();
      check_steps(last, date.at);
      last = date.at;
    }
  });
  const auto held = rows_of(RecordFile(csv, "fuzz"), true), again = rows_of(testing::read_in_parts(csv), false);
  if (again && again != held) std::abort();
  return 0;
}
