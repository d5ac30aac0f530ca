// SPDX-License-Identifier: Apache-2.0
// Writes dates in the format of their column; patterns of formats with the directives of strptime.
#include "core/data/dates/date_format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

#include "core/data/dates/date_patterns.h"
#include "core/data/dates/date_words.h"
#include "core/support/text/digits.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

void DateFormat::add(const DateFormat& other) {
  if (other.clock.size() > clock.size()) clock = other.clock;
  padded = padded && other.padded;
  padded_hour = padded_hour && other.padded_hour;
  full_names = full_names || other.full_names;
  decimals = std::max(decimals, other.decimals);
}

bool DateFormat::has_time() const { return !clock.empty() || (!given.empty() && has_field(pattern, "hi")); }
bool DateFormat::has_year() const { return has_field(pattern, "Yyz") || unix_form(pattern) != nullptr; }
bool DateFormat::is_weak() const { return !has_year() || has_field(pattern, "yzj"); }

namespace {

// Names of these patterns in model metadata.
constexpr std::pair<std::string_view, std::string_view> k_names[] = {
    {"Y-m-d", "iso"}, {"Y/m/d", "slashes"}, {"d.m.Y", "dots"}, {"Y-m", "month"}, {"Ymd", "compact"}, {"Y", "year"}};

std::string formatted(const char* format, int value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// Writes the fields of one moment.
class DateWriter {
 public:
  DateWriter(Timestamp at, const DateFormat& format)
      : format_(format), date_(calendar_day(at)), time_(time_of_day(at)), day_{at.micros - time_} {}

  std::string text(std::string_view pattern) const {
    std::string all;
    for_each_character(pattern, [&](char c, bool literal) { all += literal ? std::string(1, c) : field(c); });
    return all;
  }

 private:
  std::string field(char c) const {
    const auto seconds = static_cast<int>(time_ / k_second);
    const int hour = seconds / 3600, month = static_cast<int>(static_cast<unsigned>(date_.month()));
    const bool compact = format_.pattern.find("md") != std::string::npos || format_.pattern.find("m") == 1;
    const char *two = format_.padded || compact ? "%02d" : "%d", *two_hour = format_.padded_hour ? "%02d" : "%d";
    switch (c) {
      case 'Y': return formatted("%04d", year());
      case 'y':
      case 'z': return formatted("%02d", year() % 100);
      case 'm': return formatted(two, month);
      case 'd': return formatted(two, static_cast<int>(static_cast<unsigned>(date_.day())));
      case 'j': return formatted("%03d", static_cast<int>(days_after(*midnight(year(), 1, 1))) + 1);
      case 'h': return formatted(two_hour, hour);
      case 'i': return formatted(two_hour, (hour + 11) % 12 + 1);
      case 'p': return hour < 12 ? "AM" : "PM";
      case 'n': return formatted("%02d", seconds / 60 % 60);
      case 's': return formatted("%02d", seconds % 60) + (format_.given.empty() ? decimals(format_.decimals) : "");
      case 'f': return decimals(6).substr(1);
      case 'b':
      case 'B': return std::string(month_name(month, c == 'B' || (format_.full_names && format_.given.empty())));
      case 'a':
      case 'A': return std::string(weekday_name(iso_weekday(), c == 'A'));
      case 'q': return formatted("Q%d", (month + 2) / 3);
      case 'Q': return formatted("%dQ", (month + 2) / 3);
      case 'w': return formatted("W%02d", week());
      case 'v': return formatted("%02d", week());
      case 'u': return formatted("%d", iso_weekday());
      case 'o': return format_.zone;
      default: return std::string(1, c);
    }
  }
  std::string decimals(int n) const {
    return n == 0 ? "" : "." + formatted("%06d", static_cast<int>(time_ % k_second)).substr(0, n);
  }
  std::int64_t days_after(Timestamp first) const { return (day_.micros - first.micros) / k_day; }
  int iso_weekday() const { return weekday_of(day_) + 1; }
  // The year of an ISO week is that of its Thursday.
  Timestamp thursday() const { return {day_.micros + (4 - iso_weekday()) * k_day}; }
  int year() const {
    return static_cast<int>((has_field(format_.pattern, "wv") ? calendar_day(thursday()) : date_).year());
  }
  int week() const {
    return static_cast<int>((thursday().micros - midnight(year(), 1, 1)->micros) / (7 * k_day)) + 1;
  }

  const DateFormat& format_;
  std::chrono::year_month_day date_;
  std::int64_t time_;
  Timestamp day_;
};

}  // namespace

std::string date_text(Timestamp at, const DateFormat& format) {
  if (const NumberForm* form = unix_form(format.pattern))
    return std::to_string(at.micros / form->unit * form->per_micro);
  const DateWriter writer(at, format);
  const std::string text = writer.text(format.pattern);
  return format.clock.empty() ? text : text + writer.text(format.clock) + format.zone;
}

std::string offset_text(std::int64_t micros, std::string_view like) {
  const int minutes = static_cast<int>(std::abs(micros) / (60 * k_second));
  const auto n_digits = std::ranges::count_if(like, is_digit);
  const char* const form = n_digits == 2 && minutes % 60 == 0 ? "%s%c%02d"
                           : n_digits == 4 && like.find(':') == std::string_view::npos ? "%s%c%02d%02d"
                                                                                       : "%s%c%02d:%02d";
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), form, like.starts_with(' ') ? " " : "", micros < 0 ? '-' : '+', minutes / 60,
                minutes % 60);
  return text.data();
}

namespace {

std::string century_text(const std::string& pattern) {
  return has_field(pattern, "y") ? " (years 1969 to 2068)" : has_field(pattern, "z") ? " (years 1900 to 1999)" : "";
}

}  // namespace

std::string DateFormat::text() const {
  if (unix_form(pattern) != nullptr) return pattern;
  if (!given.empty()) return given + century_text(pattern);
  std::string text;
  for_each_character(pattern + clock, [&](char c, bool literal) {
    const auto* at = std::ranges::find(k_fields, c, &DateField::field);
    text += literal || at == std::end(k_fields) ? std::string(1, c) : std::string(at->name);
  });
  return text + zone + century_text(pattern);
}

std::string DateFormat::name() const {
  const auto* at = std::ranges::find(k_names, pattern, &std::pair<std::string_view, std::string_view>::first);
  if (at != std::end(k_names) && given.empty()) return std::string(at->second);
  DateFormat date;
  date.pattern = pattern;
  date.given = given;
  return date.text();
}

bool is_given_form(std::string_view form) { return has(form, '%'); }

std::string pattern_of_directives(const std::string& form) {
  constexpr std::pair<char, std::string_view> k_short[] = {
      {'F', "%Y-%m-%d"}, {'D', "%m/%d/%y"}, {'T', "%H:%M:%S"}, {'R', "%H:%M"}};
  std::string pattern;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const char c = form[i];
    if (c != '%') {
      if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '\\' || c == '~') pattern += '\\';
      pattern += c;
      continue;
    }
    const char directive = ++i < form.size() ? form[i] : '\0';
    const auto* at = std::ranges::find(k_fields, directive, &DateField::directive);
    const auto* of = std::ranges::find(k_short, directive, &std::pair<char, std::string_view>::first);
    if (directive == '%') pattern += '%';
    else if (directive != 0 && at != std::end(k_fields)) pattern += at->field;
    else if (of != std::end(k_short)) pattern += pattern_of_directives(std::string(of->second));
    else
      throw Error(ErrorKind::usage, "data.date_format",
                  (directive == 0 ? "ends in %" : "has an unknown directive, %" + std::string(1, directive)) + ": " +
                      in_quotes(form),
                  "Use %Y %y %m %b %d %j %H %I %p %M %S %f %z, %G-W%V-%u for weeks, or %F %T");
  }
  return pattern;
}

}  // namespace unroll
