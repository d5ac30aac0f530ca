// SPDX-License-Identifier: Apache-2.0
// Calendar arithmetic: moments, distances between them, and continued sequences.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace unroll {

inline constexpr std::int64_t k_second = 1'000'000, k_day = 86400 * k_second;  // microseconds

// A moment of the proleptic Gregorian calendar, in microseconds since 1970-01-01T00:00:00, on the clock of the data
// file. Time zones are ignored.
struct Timestamp {
  std::int64_t micros = 0;
  auto operator<=>(const Timestamp&) const = default;
};
std::chrono::year_month_day calendar_day(Timestamp at);
std::int64_t time_of_day(Timestamp at);  // microseconds since midnight
// Returns midnight of a day in years 1 to 9999; nothing for an invalid day.
std::optional<Timestamp> midnight(int year, int month, int day);

// The distance between neighbors: microseconds, or calendar months for steps of unequal length.
struct DateStep {
  static constexpr unsigned k_all_days = 0x7f, k_business_days = 0x1f;
  std::int64_t micros = 0, months = 0;  // one of the two is above 0
  // With months: the day of the month that dates fall on. Shorter months use their last day; 31: month ends.
  unsigned day = 31;
  // The calendar. Days of the week with dates; bit 0: Monday. A month that ends on another day ends on the last one of
  // these. With slots > 0, a day has dates at `open`, `open + micros`, ..., and steps lead over the other times.
  unsigned weekdays = k_all_days;
  std::int64_t slots = 0, open = 0;
  bool operator==(const DateStep&) const = default;
};
// Returns "1 day", "3 months", "15 minutes (Mon Tue Wed Thu Fri, 09:30 to 16:00)".
std::string step_text(DateStep step);
// Returns the calendar as in model metadata, "weekdays slots open"; and puts it into a step.
std::string calendar_code(DateStep step);
void put_calendar(DateStep& step, const std::string& code);
// Returns the days and times with dates, "Mon Tue Wed Thu Fri, 09:30 to 16:00"; "" for all.
std::string calendar_text(DateStep step);
// Returns the number of steps between two moments; nothing if it is not whole.
std::optional<std::int64_t> steps_between(Timestamp from, Timestamp to, DateStep step);
Timestamp after(Timestamp from, std::int64_t steps, DateStep step);
// Returns the number of dates in a day or in a week.
std::int64_t steps_per_day(DateStep step);
std::int64_t steps_per_week(DateStep step);
int weekday_of(Timestamp at);  // 0: Monday
// Returns the calendar months between two dates if both can fall on one day of the month, such as 28 February and 30
// March; otherwise 0.
std::int64_t months_apart(Timestamp from, Timestamp to);

// Finds the day of the month of a series from all its dates.
class DayOfMonth {
 public:
  void see(Timestamp at);
  // Puts the day into a step of months: 31 if every date is the last day of its month, or the last from Monday to
  // Friday.
  void put(DateStep& step) const;

 private:
  unsigned largest_ = 1;
  bool ends_ = true, business_ends_ = true;
};

}  // namespace unroll
