// SPDX-License-Identifier: Apache-2.0
// How dates are written in data files: reading a cell, writing a date like the others of its column.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/dates/dates.h"

namespace unroll {

// The format of a column. Each cell says a part of it; the rest follows from further cells.
struct DateFormat {
  std::string pattern;      // of the date, "Y-m-d"; a table in date_format.cc has the fields
  bool padded = true;       // months and days of one digit have a zero in front
  bool full_names = false;  // "January", not "Jan"
  bool has_time = false;
  int decimals = 0;  // of a second
  std::string zone;  // behind the time: "Z", "+01:00"

  // Takes over what a further cell of the same pattern shows.
  void add(const DateFormat& other);
  // "YYYY-MM-DD hh:mm:ss+01:00"
  std::string text() const;
  // For the metadata of a model: iso, slashes, dots, month, compact, year, or "DD/MM/YYYY".
  std::string name() const;
};

struct DateReading {
  Timestamp at;
  DateFormat format;
};
// In which cells a number is a date: 2024, 20240131, seconds since 1970.
enum class DateNumbers { no, yes };
// Every date that the cell can be, such as 2 January and 1 February for 01/02/2024; none for a two-digit year.
std::vector<DateReading> date_readings(std::string_view cell, DateNumbers numbers = DateNumbers::no);
// The date of a cell in a column whose pattern is known.
std::optional<DateReading> read_date(std::string_view cell, const std::string& pattern);
// Whether a cell such as 2024-01-31 is a date, in whatever column.
bool is_date_in_digits(std::string_view cell);
std::string date_text(Timestamp at, const DateFormat& format);

}  // namespace unroll
