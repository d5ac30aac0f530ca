// SPDX-License-Identifier: Apache-2.0
#include "core/data/dates/dates.h"

#include <algorithm>
#include <string_view>

#include "core/support/text/counted.h"

namespace unroll {

namespace {

unsigned last_day(std::chrono::year_month_day date) {
  return static_cast<unsigned>(std::chrono::year_month_day_last(date.year() / date.month() / std::chrono::last).day());
}
unsigned day_of(std::chrono::year_month_day date) { return static_cast<unsigned>(date.day()); }
bool ends_month(std::chrono::year_month_day date) { return day_of(date) == last_day(date); }
bool falls_on(std::chrono::year_month_day date, unsigned day) { return day_of(date) == std::min(day, last_day(date)); }
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

std::string step_text(DateStep step) {
  for (const StepUnit& unit : k_units) {
    const std::int64_t size = step.months > 0 ? unit.step.months : unit.step.micros;
    const std::int64_t n = step.months > 0 ? step.months : step.micros;
    if (size == 0 || n % size != 0) continue;
    return counted(n / size, unit.name);
  }
  return "";
}

std::optional<std::int64_t> steps_between(Timestamp from, Timestamp to, DateStep step) {
  if (step.months == 0) {
    const std::int64_t apart = to.micros - from.micros;
    return apart % step.micros == 0 ? std::optional(apart / step.micros) : std::nullopt;
  }
  const auto date = calendar_day(from), then = calendar_day(to);
  const std::int64_t months = month_number(then) - month_number(date);
  const bool fits = falls_on(date, step.day) && falls_on(then, step.day) && time_of_day(from) == time_of_day(to);
  return fits && months % step.months == 0 ? std::optional(months / step.months) : std::nullopt;
}

Timestamp after(Timestamp from, std::int64_t steps, DateStep step) {
  if (step.months == 0) return {from.micros + steps * step.micros};
  const auto date = calendar_day(from);
  const std::chrono::year_month month =
      std::chrono::year_month(date.year(), date.month()) + std::chrono::months(static_cast<int>(steps * step.months));
  const std::chrono::year_month_day first = month / 1;
  const std::chrono::year_month_day to = month / std::chrono::day(std::min(step.day, last_day(first)));
  return {std::chrono::sys_days(to).time_since_epoch().count() * k_day + time_of_day(from)};
}

std::int64_t months_apart(Timestamp from, Timestamp to) {
  const auto date = calendar_day(from), then = calendar_day(to);
  const unsigned day = ends_month(date) && ends_month(then) ? 31 : std::max(day_of(date), day_of(then));
  return steps_between(from, to, {0, 1, day}).value_or(0);
}

void DayOfMonth::see(Timestamp at) {
  const auto date = calendar_day(at);
  largest_ = std::max(largest_, day_of(date));
  ends_ = ends_ && ends_month(date);
}

}  // namespace unroll
