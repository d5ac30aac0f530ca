// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/table/dates.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>

#include "core/support/text/counted.h"

namespace unroll {

namespace {

constexpr std::int64_t k_day = 86400;

// Reads over a text from the left.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  // A number of exactly n digits; -1 when there is none.
  int digits(std::size_t n) {
    if (text_.size() < n) return -1;
    int value = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (text_[i] < '0' || text_[i] > '9') return -1;
      value = 10 * value + (text_[i] - '0');
    }
    text_.remove_prefix(n);
    return value;
  }
  bool skip(char c) {
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool at_end() const { return text_.empty(); }

 private:
  std::string_view text_;
};

std::chrono::year_month_day calendar(Moment at) {
  return std::chrono::floor<std::chrono::days>(std::chrono::sys_seconds(std::chrono::seconds(at.seconds)));
}
std::optional<Moment> moment(int year, int month, int day) {
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (year < 1 || month < 1 || day < 1 || !date.ok()) return std::nullopt;
  return Moment{std::chrono::sys_days(date).time_since_epoch().count() * k_day};
}
std::int64_t seconds_of_day(Moment at) { return ((at.seconds % k_day) + k_day) % k_day; }
bool ends_month(std::chrono::year_month_day date) { return date == date.year() / date.month() / std::chrono::last; }
std::int64_t month_number(std::chrono::year_month_day date) {
  return static_cast<int>(date.year()) * 12LL + static_cast<unsigned>(date.month()) - 1;
}

// "T12:00", " 12:00:30.000Z" behind a day, in seconds; nothing when it is no time.
std::optional<std::int64_t> time_in(Scanner& s) {
  const int hour = s.digits(2);
  if (hour < 0 || hour > 23 || !s.skip(':')) return std::nullopt;
  const int minute = s.digits(2);
  if (minute < 0 || minute > 59) return std::nullopt;
  int second = 0;
  if (s.skip(':')) {
    second = s.digits(2);
    if (second < 0 || second > 59) return std::nullopt;
    if (s.skip('.')) {
      if (!s.skip('0')) return std::nullopt;
      while (s.skip('0')) {
      }
    }
  }
  s.skip('Z');
  if (!s.at_end()) return std::nullopt;
  return hour * 3600 + minute * 60 + second;
}

std::optional<DateCell> with_time(Scanner& s, int year, int month, int day, DateForm form) {
  std::optional<Moment> at = month < 0 || day < 0 ? std::nullopt : moment(year, month, day);
  if (!at) return std::nullopt;
  if (s.at_end()) return DateCell{*at, form, false};
  if (!s.skip('T') && !s.skip(' ')) return std::nullopt;
  const std::optional<std::int64_t> time = time_in(s);
  if (!time) return std::nullopt;
  return DateCell{{at->seconds + *time}, form, true};
}

std::optional<DateCell> plain(Scanner& s, int year, int month, int day, DateForm form) {
  const std::optional<Moment> at = s.at_end() && month >= 0 && day >= 0 ? moment(year, month, day) : std::nullopt;
  return at ? std::optional(DateCell{*at, form, false}) : std::nullopt;
}

}  // namespace

namespace {
constexpr std::string_view k_form_names[] = {"iso", "slashes", "dots", "month", "compact", "year"};  // by DateForm
}

std::string_view date_form_name(DateForm form) { return k_form_names[static_cast<std::size_t>(form)]; }

std::optional<DateCell> date_in(std::string_view cell) {
  while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
  while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
  if (cell.size() > 2 && cell[2] == '.') {
    Scanner s(cell);
    const int day = s.digits(2);
    s.skip('.');
    const int month = s.digits(2);
    if (!s.skip('.')) return std::nullopt;
    return with_time(s, s.digits(4), month, day, DateForm::dots);
  }
  Scanner s(cell);
  const int year = s.digits(4);
  if (year < 1) return std::nullopt;
  if (s.at_end()) return plain(s, year, 1, 1, DateForm::year);
  const bool dash = s.skip('-'), slash = !dash && s.skip('/');
  const int month = s.digits(2);
  if (dash && s.at_end()) return plain(s, year, month, 1, DateForm::month);
  if (!dash && !slash) {
    const int day = s.digits(2);
    return plain(s, year, month, day, DateForm::compact);
  }
  if (!s.skip(dash ? '-' : '/')) return std::nullopt;
  const int day = s.digits(2);
  return with_time(s, year, month, day, dash ? DateForm::iso : DateForm::slashes);
}

std::string date_text(Moment at, DateForm form, bool has_time) {
  const auto date = calendar(at);
  const int year = static_cast<int>(date.year());
  const unsigned month = static_cast<unsigned>(date.month()), day = static_cast<unsigned>(date.day());
  std::array<char, 64> text{};
  switch (form) {
    case DateForm::iso:
      std::snprintf(text.data(), text.size(), "%04d-%02u-%02u", year, month, day);
      break;
    case DateForm::slashes:
      std::snprintf(text.data(), text.size(), "%04d/%02u/%02u", year, month, day);
      break;
    case DateForm::dots:
      std::snprintf(text.data(), text.size(), "%02u.%02u.%04d", day, month, year);
      break;
    case DateForm::month:
      std::snprintf(text.data(), text.size(), "%04d-%02u", year, month);
      break;
    case DateForm::compact:
      std::snprintf(text.data(), text.size(), "%04d%02u%02u", year, month, day);
      break;
    case DateForm::year:
      std::snprintf(text.data(), text.size(), "%04d", year);
      break;
  }
  if (!has_time) return text.data();
  const std::int64_t time = seconds_of_day(at);
  std::array<char, 64> clock{};
  std::snprintf(clock.data(), clock.size(), " %02d:%02d:%02d", static_cast<int>(time / 3600),
                static_cast<int>(time / 60 % 60), static_cast<int>(time % 60));
  return std::string(text.data()) + clock.data();
}

bool is_date_name(std::string_view column) {
  std::string name(column);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::string_view k_names[] = {"date", "day", "time", "year", "timestamp", "datetime", "ds"};
  return std::find(std::begin(k_names), std::end(k_names), name) != std::end(k_names);
}

namespace {

struct StepUnit {
  std::string_view name;
  DateStep step;
};
constexpr StepUnit k_units[] = {
    {"year", {0, 12}},        {"month", {0, 1}},      {"week", {7 * k_day, 0}}, {"day", {k_day, 0}},
    {"hour", {3600, 0}},      {"minute", {60, 0}},    {"second", {1, 0}},
};

}  // namespace

std::string step_text(DateStep step) {
  for (const StepUnit& unit : k_units) {
    const std::int64_t size = step.months > 0 ? unit.step.months : unit.step.seconds;
    const std::int64_t n = step.months > 0 ? step.months : step.seconds;
    if (size == 0 || n % size != 0) continue;
    return counted(n / size, unit.name);
  }
  return "";
}

std::optional<std::int64_t> steps_between(Moment from, Moment to, DateStep step) {
  if (step.months == 0) {
    const std::int64_t apart = to.seconds - from.seconds;
    return apart % step.seconds == 0 ? std::optional(apart / step.seconds) : std::nullopt;
  }
  const std::int64_t months = month_number(calendar(to)) - month_number(calendar(from));
  if (months % step.months != 0) return std::nullopt;
  const std::int64_t steps = months / step.months;
  // From the last day of a short month a step leads to the same day of the next month, or to its last one.
  const auto date = calendar(from), then = calendar(to);
  const bool same_day = then.day() == date.day() || (ends_month(then) && then.day() < date.day());
  const bool fits = same_day || (ends_month(date) && ends_month(then));
  return fits && seconds_of_day(from) == seconds_of_day(to) ? std::optional(steps) : std::nullopt;
}

Moment after(Moment from, std::int64_t steps, DateStep step) {
  if (step.months == 0) return {from.seconds + steps * step.seconds};
  const auto date = calendar(from);
  const std::chrono::year_month month = std::chrono::year_month(date.year(), date.month()) +
                                        std::chrono::months(static_cast<int>(steps * step.months));
  std::chrono::year_month_day to = month / date.day();
  if (ends_month(date) || !to.ok()) to = month / std::chrono::last;
  return {std::chrono::sys_days(to).time_since_epoch().count() * k_day + seconds_of_day(from)};
}

}  // namespace unroll
