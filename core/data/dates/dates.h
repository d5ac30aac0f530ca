// SPDX-License-Identifier: Apache-2.0
// The calendar of data files: moments, how far two of them are apart, and those that follow.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace unroll {

inline constexpr std::int64_t k_second = 1'000'000, k_day = 86400 * k_second;  // microseconds

// A moment of the proleptic Gregorian calendar, in microseconds since 1970-01-01T00:00:00. The clock is that of the
// file: time zones are not known.
struct Timestamp {
  std::int64_t micros = 0;
  auto operator<=>(const Timestamp&) const = default;
};
std::chrono::year_month_day calendar_day(Timestamp at);
std::int64_t time_of_day(Timestamp at);  // microseconds since midnight
// Midnight of a day of years 1 to 9999. Nothing when there is no such day.
std::optional<Timestamp> midnight(int year, int month, int day);

// The distance between neighbors: microseconds, or calendar months where these differ in length.
struct DateStep {
  std::int64_t micros = 0, months = 0;  // one of the two is above 0
  // Of months: the day of the month that dates fall on. A shorter month has its last day instead; 31: month ends.
  unsigned day = 31;
  bool operator==(const DateStep&) const = default;
};
std::string step_text(DateStep step);  // "1 day", "3 months", "15 minutes"
// How many steps lead from one to the other, nothing when no whole number does.
std::optional<std::int64_t> steps_between(Timestamp from, Timestamp to, DateStep step);
Timestamp after(Timestamp from, std::int64_t steps, DateStep step);
// The calendar months from one to the other when both can fall on one day of the month, such as 28 February and 30
// March; 0 when they cannot.
std::int64_t months_apart(Timestamp from, Timestamp to);

// The day of the month that a series falls on, from all its dates.
class DayOfMonth {
 public:
  void see(Timestamp at);
  // 31 when every date is the last day of its month.
  unsigned day() const { return ends_ ? 31 : largest_; }

 private:
  unsigned largest_ = 1;
  bool ends_ = true;
};

}  // namespace unroll
