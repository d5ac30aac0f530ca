// SPDX-License-Identifier: Apache-2.0
// Writes dates in the format of their column.
#include "core/data/dates/date_format.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/data/dates/date_patterns.h"
#include "core/data/dates/date_words.h"

namespace unroll {

void DateFormat::add(const DateFormat& other) {
  padded = padded && other.padded;
  full_names = full_names || other.full_names;
  has_time = has_time || other.has_time;
  decimals = std::max(decimals, other.decimals);
}

namespace {

// Names of these patterns in model metadata.
constexpr std::pair<std::string_view, std::string_view> k_names[] = {
    {"Y-m-d", "iso"}, {"Y/m/d", "slashes"}, {"d.m.Y", "dots"}, {"Y-m", "month"}, {"Ymd", "compact"}, {"Y", "year"}};

std::string formatted(const char* format, int value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string clock_text(std::int64_t micros, const DateFormat& format) {
  const auto seconds = static_cast<int>(micros / k_second);
  std::string text = " " + formatted("%02d", seconds / 3600) + formatted(":%02d", seconds / 60 % 60) +
                     formatted(":%02d", seconds % 60);
  const std::string decimals = formatted("%06d", static_cast<int>(micros % k_second));
  if (format.decimals > 0) text += "." + decimals.substr(0, format.decimals);
  return text + format.zone;
}

std::string field_text(char field, Timestamp at, const DateFormat& format) {
  const auto date = calendar_day(at);
  const auto seconds = static_cast<int>(time_of_day(at) / k_second);
  const int month = static_cast<int>(static_cast<unsigned>(date.month()));
  const bool compact = format.pattern.find("md") != std::string::npos || format.pattern.find("m") == 1;
  const char* two = format.padded || compact ? "%02d" : "%d";
  switch (field) {
    case 'Y': return formatted("%04d", static_cast<int>(date.year()));
    case 'm': return formatted(two, month);
    case 'd': return formatted(two, static_cast<int>(static_cast<unsigned>(date.day())));
    case 'h': return formatted("%02d", seconds / 3600);
    case 'n': return formatted("%02d", seconds / 60 % 60);
    case 's': return formatted("%02d", seconds % 60);
    case 'b': return std::string(month_name(month, format.full_names));
    case 'q': return formatted("Q%d", (month + 2) / 3);
    default: return std::string(1, field);
  }
}

// ISO week text. The year of an ISO week is that of its Thursday.
std::string week_text(Timestamp at, const DateFormat& format) {
  const auto weekday = std::chrono::weekday(std::chrono::sys_days(calendar_day(at))).iso_encoding();
  const Timestamp thursday{at.micros - time_of_day(at) + (4 - static_cast<std::int64_t>(weekday)) * k_day};
  const int year = static_cast<int>(calendar_day(thursday).year());
  const auto days = (thursday.micros - midnight(year, 1, 1)->micros) / k_day;
  std::string text;
  for (const char c : format.pattern)
    text += c == 'Y'   ? formatted("%04d", year)
            : c == 'w' ? formatted("W%02d", static_cast<int>(days / 7) + 1)
                       : std::string(1, c);
  return text;
}

}  // namespace

std::string date_text(Timestamp at, const DateFormat& format) {
  if (const NumberForm* form = unix_form(format.pattern))
    return std::to_string(at.micros / form->unit * form->per_micro);
  if (has(format.pattern, 'w')) return week_text(at, format);
  std::string text;
  for (const char c : format.pattern) text += field_text(c, at, format);
  return format.has_time ? text + clock_text(time_of_day(at), format) : text;
}

std::string DateFormat::text() const {
  if (unix_form(pattern) != nullptr) return pattern;
  constexpr std::pair<char, std::string_view> k_fields[] = {
      {'Y', "YYYY"}, {'m', "MM"}, {'d', "DD"}, {'b', "Mon"}, {'q', "Qq"},
      {'w', "Www"},  {'h', "hh"}, {'n', "mm"}, {'s', "ss"},
  };
  std::string text;
  for (const char c : pattern) {
    const auto* at = std::ranges::find(k_fields, c, &std::pair<char, std::string_view>::first);
    text += at == std::end(k_fields) ? std::string(1, c) : std::string(at->second);
  }
  return has_time ? text + " hh:mm:ss" + zone : text;
}

std::string DateFormat::name() const {
  const auto* at = std::ranges::find(k_names, pattern, &std::pair<std::string_view, std::string_view>::first);
  if (at != std::end(k_names)) return std::string(at->second);
  DateFormat date;
  date.pattern = pattern;
  return date.text();
}

}  // namespace unroll
