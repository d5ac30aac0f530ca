// SPDX-License-Identifier: Apache-2.0
#include "core/data/dates/dates.h"

#include <algorithm>
#include <bit>
#include <sstream>
#include <string_view>

#include "core/data/dates/date_words.h"
#include "core/support/text/counted.h"

namespace unroll {

namespace {

unsigned last_day(std::chrono::year_month_day date) {
  return static_cast<unsigned>(std::chrono::year_month_day_last(date.year() / date.month() / std::chrono::last).day());
}
unsigned day_of(std::chrono::year_month_day date) { return static_cast<unsigned>(date.day()); }
bool ends_month(std::chrono::year_month_day date) { return day_of(date) == last_day(date); }
// Returns the date of a step of months in the month of `date`.
std::chrono::sys_days day_in_month(std::chrono::year_month_day date, DateStep step) {
  std::chrono::sys_days day = date.year() / date.month() / std::chrono::day(std::min(step.day, last_day(date)));
  while ((step.weekdays >> (std::chrono::weekday(day).iso_encoding() - 1) & 1) == 0) day -= std::chrono::days(1);
  return day;
}
bool falls_on(std::chrono::year_month_day date, DateStep step) {
  return std::chrono::sys_days(date) == day_in_month(date, step);
}
std::int64_t month_number(std::chrono::year_month_day date) {
  return static_cast<int>(date.year()) * 12LL + static_cast<unsigned>(date.month()) - 1;
}

struct StepUnit {
  std::string_view name;
  DateStep step;
};
constexpr StepUnit k_units[] = {
    {"year", {0, 12}},      {"month", {0, 1}},           {"week", {7 * k_day, 0}},
    {"day", {k_day, 0}},    {"hour", {3600 * k_second}}, {"minute", {60 * k_second}},
    {"second", {k_second}}, {"millisecond", {1000}},     {"microsecond", {1}},
};
std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Numbers the moments of a calendar.
std::optional<std::int64_t> slot_of(Timestamp at, const DateStep& step) {
  const std::int64_t time = time_of_day(at) - step.open, day = (at.micros - time_of_day(at)) / k_day + 3;
  const std::int64_t week = floor_div(day, 7);  // from Monday, 29 December 1969
  const auto weekday = static_cast<unsigned>(day - 7 * week);
  const bool fits = time >= 0 && time % step.micros == 0 && time / step.micros < step.slots;
  if (!fits || (step.weekdays >> weekday & 1) == 0) return std::nullopt;
  const std::int64_t of_week = std::popcount(step.weekdays & ((1U << weekday) - 1));
  return (week * std::popcount(step.weekdays) + of_week) * step.slots + time / step.micros;
}
Timestamp moment_of(std::int64_t slot, const DateStep& step) {
  const std::int64_t day = floor_div(slot, step.slots), per_week = std::popcount(step.weekdays);
  const std::int64_t week = floor_div(day, per_week);
  std::int64_t weekday = 0;
  for (std::int64_t left = day - week * per_week;; ++weekday)
    if ((step.weekdays >> weekday & 1) != 0 && left-- == 0) break;
  return {(7 * week + weekday - 3) * k_day + step.open + (slot - day * step.slots) * step.micros};
}

std::string time_text(std::int64_t micros) {
  const auto two = [](std::int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  const std::int64_t seconds = micros / k_second;
  return two(seconds / 3600) + ":" + two(seconds / 60 % 60) + (seconds % 60 > 0 ? ":" + two(seconds % 60) : "");
}
}  // namespace

std::chrono::year_month_day calendar_day(Timestamp at) {
  return std::chrono::floor<std::chrono::days>(
      std::chrono::sys_time<std::chrono::microseconds>(std::chrono::microseconds(at.micros)));
}

std::int64_t time_of_day(Timestamp at) { return ((at.micros % k_day) + k_day) % k_day; }

std::optional<Timestamp> midnight(int year, int month, int day) {
  if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return Timestamp{std::chrono::sys_days(date).time_since_epoch().count() * k_day};
}

int weekday_of(Timestamp at) {
  return static_cast<int>(std::chrono::weekday(std::chrono::sys_days(calendar_day(at))).iso_encoding()) - 1;
}

std::string calendar_text(DateStep step) {
  std::string text;
  for (int d = 0; d < 7 && step.weekdays != DateStep::k_all_days; ++d)
    if ((step.weekdays >> d & 1) != 0) text += (text.empty() ? "" : " ") + std::string(weekday_name(d + 1, false));
  if (step.slots == 0 || step.micros == k_day) return text;
  return text + (text.empty() ? "" : ", ") + time_text(step.open) + " to " +
         time_text(step.open + (step.slots - 1) * step.micros);
}

std::string step_text(DateStep step) {
  const std::string calendar = calendar_text(step);
  for (const StepUnit& unit : k_units) {
    const std::int64_t size = step.months > 0 ? unit.step.months : unit.step.micros;
    const std::int64_t n = step.months > 0 ? step.months : step.micros;
    if (size == 0 || n % size != 0) continue;
    return counted(n / size, unit.name) + (calendar.empty() ? "" : " (" + calendar + ")");
  }
  return "";
}

std::string calendar_code(DateStep step) {
  return std::to_string(step.weekdays) + " " + std::to_string(step.slots) + " " + std::to_string(step.open);
}

void put_calendar(DateStep& step, const std::string& code) {
  DateStep read = step;
  std::istringstream in(code);
  in >> read.weekdays >> read.slots >> read.open;
  const bool fits = read.slots >= 0 && read.open >= 0 && (read.slots == 0 || (step.micros > 0 && read.slots <= k_day));
  if (in && fits && read.weekdays - 1 < DateStep::k_all_days) step = read;
}

std::int64_t steps_per_day(DateStep step) {
  return step.slots > 0 ? step.slots : step.micros > 0 && k_day % step.micros == 0 ? k_day / step.micros : 0;
}
std::int64_t steps_per_week(DateStep step) {
  if (step.slots > 0) return step.slots * std::popcount(step.weekdays);
  return step.micros > 0 && 7 * k_day % step.micros == 0 ? 7 * k_day / step.micros : 0;
}

std::optional<std::int64_t> steps_between(Timestamp from, Timestamp to, DateStep step) {
  if (step.slots > 0) {
    const std::optional<std::int64_t> a = slot_of(from, step), b = slot_of(to, step);
    return a && b ? std::optional(*b - *a) : std::nullopt;
  }
  if (step.months == 0) {
    const std::int64_t apart = to.micros - from.micros;
    return apart % step.micros == 0 ? std::optional(apart / step.micros) : std::nullopt;
  }
  const auto date = calendar_day(from), then = calendar_day(to);
  const std::int64_t months = month_number(then) - month_number(date);
  const bool fits = falls_on(date, step) && falls_on(then, step) && time_of_day(from) == time_of_day(to);
  return fits && months % step.months == 0 ? std::optional(months / step.months) : std::nullopt;
}

Timestamp after(Timestamp from, std::int64_t steps, DateStep step) {
  if (step.slots > 0) return moment_of(slot_of(from, step).value_or(0) + steps, step);
  if (step.months == 0) return {from.micros + steps * step.micros};
  const auto date = calendar_day(from);
  const std::chrono::year_month month =
      std::chrono::year_month(date.year(), date.month()) + std::chrono::months(static_cast<int>(steps * step.months));
  return {day_in_month(month / 1, step).time_since_epoch().count() * k_day + time_of_day(from)};
}

std::int64_t months_apart(Timestamp from, Timestamp to) {
  const auto date = calendar_day(from), then = calendar_day(to);
  const unsigned day = ends_month(date) && ends_month(then) ? 31 : std::max(day_of(date), day_of(then));
  if (const auto months = steps_between(from, to, {0, 1, day})) return *months;
  return steps_between(from, to, {0, 1, 31, DateStep::k_business_days}).value_or(0);
}

void DayOfMonth::see(Timestamp at) {
  const auto date = calendar_day(at);
  largest_ = std::max(largest_, day_of(date));
  ends_ = ends_ && ends_month(date);
  business_ends_ = business_ends_ && falls_on(date, {0, 1, 31, DateStep::k_business_days});
}

void DayOfMonth::put(DateStep& step) const {
  step.day = ends_ || business_ends_ ? 31 : largest_;
  if (business_ends_ && !ends_) step.weekdays = DateStep::k_business_days;
}

}  // namespace unroll
