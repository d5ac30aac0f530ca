// SPDX-License-Identifier: Apache-2.0
// Calendar arithmetic: moments, distances between them, and continued sequences.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

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
  std::int64_t micros = 0, months = 0;  // one of the two is above 0
  // With months: the day of the month that dates fall on. Shorter months use their last day; 31: month ends.
  unsigned day = 31;
  bool operator==(const DateStep&) const = default;
};
std::string step_text(DateStep step);  // "1 day", "3 months", "15 minutes"
// Returns the number of steps between two moments; nothing if it is not whole.
std::optional<std::int64_t> steps_between(Timestamp from, Timestamp to, DateStep step);
Timestamp after(Timestamp from, std::int64_t steps, DateStep step);
// Returns the calendar months between two dates if both can fall on one day of the month, such as 28 February and 30
// March; otherwise 0.
std::int64_t months_apart(Timestamp from, Timestamp to);

// Finds the day of the month of a series from all its dates.
class DayOfMonth {
 public:
  void see(Timestamp at);
  // Returns 31 if every date is the last day of its month.
  unsigned day() const { return ends_ ? 31 : largest_; }

 private:
  unsigned largest_ = 1;
  bool ends_ = true;
};

}  // namespace unroll
