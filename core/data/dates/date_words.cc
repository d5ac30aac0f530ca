// SPDX-License-Identifier: Apache-2.0
#include "core/data/dates/date_words.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "core/data/text/cell_number.h"

namespace unroll {

namespace {

constexpr std::string_view k_months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
constexpr std::string_view k_weekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                           "Friday", "Saturday", "Sunday"};
constexpr std::string_view k_date_names[] = {"date", "day", "time", "year", "timestamp", "datetime", "ds", "month"};
// Without "min", which more often means a minimum than a minute.
constexpr std::string_view k_part_names[] = {"year", "yr", "quarter", "qtr",    "month", "mnth",    "week",  "day",
                                             "hour", "hr", "minute",  "second", "time",  "weekday", "dates", "epoch"};
// Words that turn a number into a date or a time, and words that may accompany one.
constexpr std::string_view k_number_words[] = {"AM", "PM", "Q", "W", "KW", "CW", "week", "quarter", "FY"};
constexpr std::string_view k_fillers[] = {"T", "Z", "UTC", "GMT", "H", "st", "nd", "rd", "th", "of"};

template <std::size_t n>
bool among(const std::string_view (&words)[n], std::string_view word) {
  return std::ranges::any_of(words, [&](std::string_view w) { return same_word(w, word); });
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](unsigned char c) { return std::tolower(c); }, [](unsigned char c) { return std::tolower(c); });
}

int month_of(std::string_view word) {
  for (int m = 0; m < 12; ++m)
    if (same_word(word, k_months[m]) || same_word(word, k_months[m].substr(0, 3))) return m + 1;
  return same_word(word, "Sept") ? 9 : 0;
}

std::string_view month_name(int month, bool full) {
  const std::string_view name = k_months[month - 1];
  return full ? name : name.substr(0, 3);
}

bool is_weekday(std::string_view word) {
  return std::ranges::any_of(
      k_weekdays, [&](std::string_view day) { return same_word(word, day) || same_word(word, day.substr(0, 3)); });
}

std::string_view weekday_name(int iso, bool full) { return k_weekdays[iso - 1].substr(0, full ? 9 : 3); }

bool is_date_name(std::string_view column) { return among(k_date_names, column); }
bool is_date_part_name(std::string_view column) { return among(k_part_names, column); }

bool hints_at_dates(std::string_view column) {
  for (std::size_t i = 0; i < column.size();) {
    const std::size_t begin = i;
    while (i < column.size() && std::isalpha(static_cast<unsigned char>(column[i])) != 0) ++i;
    if (is_date_name(column.substr(begin, i - begin))) return true;
    i += i == begin;
  }
  return false;
}

namespace {

// Counts of the groups of digits and letters in a cell.
struct Groups {
  int years = 0, small = 0, ordinals = 0;  // numbers from 1500 to 2199; with one or two digits; with three
  int names = 0, other = 0, unknown = 0;   // words: months and weekdays; number words; all except fillers
  bool clock = false, strange = false;     // "12:30"; characters that occur in no date
};

Groups groups_of(std::string_view cell) {
  constexpr std::string_view k_separators = " -/.:,'+()[]_\\";
  Groups groups;
  const auto is = [&](std::size_t i, auto test) {
    return i < cell.size() && test(static_cast<unsigned char>(cell[i]));
  };
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto letter = [](unsigned char c) { return std::isalpha(c) != 0 || c >= 0x80; };
  for (std::size_t i = 0; i < cell.size();) {
    const std::size_t begin = i;
    while (is(i, digit)) ++i;
    if (const std::size_t n = i - begin; n > 0) {
      groups.years += n == 4 && cell.substr(begin, 2) >= "15" && cell.substr(begin, 2) <= "21";
      groups.small += n <= 2;
      groups.ordinals += n == 3;
      groups.clock = groups.clock || (n <= 2 && is(i, [](unsigned char c) { return c == ':'; }) && is(i + 1, digit));
      continue;
    }
    while (is(i, letter)) ++i;
    const std::string_view word = cell.substr(begin, i - begin);
    if (word.empty()) {
      groups.strange |= k_separators.find(cell[i]) == std::string_view::npos;
      ++i;
      continue;
    }
    if (month_of(word) > 0 || is_weekday(word))
      ++groups.names;
    else if (among(k_number_words, word))
      ++groups.other;
    else
      groups.unknown += !among(k_fillers, word);
  }
  return groups;
}

}  // namespace

bool looks_like_date(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.size() > 40 || number_in(cell)) return false;
  const Groups r = groups_of(cell);
  const int numbers = r.years + r.small;
  if (r.strange || r.unknown > 3) return false;
  return r.clock || (r.names > 0 && r.unknown <= 1) || (r.other > 0 && numbers > 0 && r.unknown == 0) ||
         (r.years > 0 && (r.small > 0 || r.ordinals > 0)) || r.small >= 3 || r.years > 1 ||
         (r.years == 1 && r.unknown == 1 && cell.find(' ') != std::string_view::npos);
}

}  // namespace unroll
