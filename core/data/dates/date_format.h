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
  std::string pattern;      // of the date, "Y-m-d"; the table in date_format.cc lists the fields
  bool padded = true;       // one-digit months and days have a leading zero
  bool full_names = false;  // "January", not "Jan"
  bool has_time = false;
  int decimals = 0;  // of seconds
  std::string zone;  // after the time: "Z", "+01:00"

  // Merges the format of a further cell with the same pattern.
  void add(const DateFormat& other);
  // Returns "YYYY-MM-DD hh:mm:ss+01:00".
  std::string text() const;
  // Returns the name in model metadata: iso, slashes, dots, month, compact, year, or "DD/MM/YYYY".
  std::string name() const;
};

struct DateReading {
  Timestamp at;
  DateFormat format;
};
// yes: a number may be a date: 2024, 20240131, seconds since 1970.
enum class DateNumbers { no, yes };
// Returns all dates that a cell can mean, such as 2 January and 1 February for 01/02/2024; none for a two-digit year.
std::vector<DateReading> date_readings(std::string_view cell, DateNumbers numbers = DateNumbers::no);
// Reads a cell of a column with a known pattern.
std::optional<DateReading> read_date(std::string_view cell, const std::string& pattern);
// True for a date such as 2024-01-31, in any column.
bool is_date_in_digits(std::string_view cell);
std::string date_text(Timestamp at, const DateFormat& format);

}  // namespace unroll
