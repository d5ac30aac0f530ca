// SPDX-License-Identifier: Apache-2.0
// Date formats of data files: reads a cell, writes a date in the format of its column.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/dates/dates.h"

namespace unroll {

// The format of a column. A cell determines only a part of it; further cells determine the rest.
struct DateFormat {
  std::string pattern;      // of the date, "Y-m-d"; date_patterns.h lists the fields
  std::string clock;        // pattern of the time behind it, " h:n"; "": none
  bool padded = true;       // one-digit months and days have a leading zero
  bool padded_hour = true;  // one-digit hours too
  bool full_names = false;  // "January", not "Jan"
  int decimals = 0;         // of seconds
  std::string zone;         // after the time: "Z", "+01:00"
  std::string given;        // data.date_format, which has all of the pattern

  // Merges the format of a further cell with the same pattern.
  void add(const DateFormat& other);
  bool has_time() const;
  // True if many texts that are no dates have such a form: a two-digit year, the day of a year, or no year.
  bool is_weak() const;
  bool has_year() const;
  // Returns "YYYY-MM-DD hh:mm:ss+01:00".
  std::string text() const;
  // Returns the name in model metadata: iso, slashes, dots, month, compact, year, "DD/MM/YYYY", or data.date_format.
  std::string name() const;
};

struct DateReading {
  Timestamp at;  // on the clock of the cell
  std::optional<std::int64_t> offset;  // of this clock from UTC, in microseconds, if the cell has one
  DateFormat format;
};
// yes: a number may be a date: 2024, 20240131, seconds since 1970.
enum class DateNumbers { no, yes };
// Returns all dates that a cell can mean, such as 2 January and 1 February for 01/02/2024.
std::vector<DateReading> date_readings(std::string_view cell, DateNumbers numbers = DateNumbers::no);
// True for a form with directives of strptime, data.date_format or DateFormat::name() of it.
bool is_given_form(std::string_view form);
// Returns the dates that a cell can mean in such a form: one by century for a two-digit year. Throws Error(usage) on an
// unknown directive.
std::vector<DateReading> date_readings_in(std::string_view cell, const std::string& form);
// Reads a cell of a column whose other cells have this format.
std::optional<DateReading> read_date(std::string_view cell, const DateFormat& format);
// True for a date such as 2024-01-31, in any column.
bool is_date_in_digits(std::string_view cell);
std::string date_text(Timestamp at, const DateFormat& format);
// Writes an offset in the form of another one: "+02:00" like "+01:00" or "Z", "+0200" like "+0100", "+02" like "+01".
std::string offset_text(std::int64_t micros, std::string_view like);

}  // namespace unroll
