// SPDX-License-Identifier: Apache-2.0
// Calendar dates of data files: what a cell says, how far two dates are apart, and the dates that follow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace unroll {

// A moment of the proleptic Gregorian calendar, in seconds since 1970-01-01T00:00:00; time zones are not known.
struct Moment {
  std::int64_t seconds = 0;
  auto operator<=>(const Moment&) const = default;
};

enum class DateForm : std::uint8_t {
  iso,      // 2024-03-31, 2024-03-31T12:00, 2024-03-31 12:00:30; a Z at the end and fractions of zero are read over
  slashes,  // 2024/03/31, perhaps with a time
  dots,     // 31.03.2024, perhaps with a time
  month,    // 2024-03
  compact,  // 20240331: in a column called date, day or time only, since it is a number too
  year,     // 2024: the same, or year
};
std::string_view date_form_name(DateForm form);
struct DateCell {
  Moment at;
  DateForm form = DateForm::iso;
  bool has_time = false;
};
// Years 1 to 9999. Nothing when the cell is no date.
std::optional<DateCell> date_in(std::string_view cell);
// The same text back. `form` is that of the column.
std::string date_text(Moment at, DateForm form, bool has_time);
// Whether a column of this name may hold dates that are written like numbers.
bool is_date_name(std::string_view column);

// The distance between neighbors: seconds, or calendar months where these differ in length.
struct DateStep {
  std::int64_t seconds = 0, months = 0;  // one of the two is above 0
  bool operator==(const DateStep&) const = default;
};
std::string step_text(DateStep step);  // "1 day", "3 months", "15 minutes"
// How many steps lead from one to the other, nothing when no whole number does. A step of months from the last day of a
// month leads to the last day of a month.
std::optional<std::int64_t> steps_between(Moment from, Moment to, DateStep step);
Moment after(Moment from, std::int64_t steps, DateStep step);

}  // namespace unroll
