// SPDX-License-Identifier: Apache-2.0
// Reads dates: finds every pattern that fits a cell, or reads a cell with the pattern of its column.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/data/dates/date_format.h"
#include "core/data/dates/date_patterns.h"
#include "core/data/dates/date_words.h"
#include "core/data/text/cell_number.h"
#include "core/support/text/digits.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// A pattern. "~" stands for the separators in a cell: one of `separators` or, around names, up to two.
struct Pattern {
  std::string_view fields, separators;
};
constexpr Pattern k_patterns[] = {
    {"Y~m~d", "-/."},   {"d~m~Y", "./-"},   {"m~d~Y", "/-"},    {"Y~m", "-/"},      {"m~Y", "/-"},
    {"YMm", ""},        {"b~d~Y", "-/., "}, {"d~b~Y", "-/., "}, {"Y~b~d", "-/., "}, {"b~Y", "-/., "},
    {"Y~b", "-/., "},   {"Y~q", "-/:. "},   {"q~Y", "-/. "},    {"Q~Y", "-/. "},    {"Y~w", "- "},
    {"Y~w~u", "- "},    {"Ymd", ""},        {"Y~j", "-."},      {"m~d~y", "/-"},    {"d~m~y", "./-"},
    {"y~m~d", "-/."},   {"b~d~y", "-/., "}, {"d~b~y", "-/., "}, {"b~y", "-/., "},   {"y~b", "-/., "},
    {"q~y", "-/. "},    {"Q~y", "-/. "},    {"y~q", "-/. "},    {"b~d", "-/., "},   {"d~b", "-/., "},
};
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Reads a text from left to right.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  // Reads a number of `least` to `most` digits; returns nothing if there is none.
  std::optional<int> number(std::size_t least, std::size_t most) {
    int value = 0;
    std::size_t n = 0;
    for (; n < most && n < text_.size() && is_digit(text_[n]); ++n) value = 10 * value + (text_[n] - '0');
    if (n < least) return std::nullopt;
    text_.remove_prefix(n);
    return value;
  }
  std::string_view letters() {
    std::size_t n = 0;
    while (n < text_.size() && is_letter(text_[n])) ++n;
    return take(n);
  }
  bool skip(char c) { return !text_.empty() && text_[0] == c && !take(1).empty(); }
  bool skip_any(std::string_view set) { return !text_.empty() && has(set, text_[0]) && !take(1).empty(); }
  bool skip_word(std::string_view word) {
    return same_word(text_.substr(0, word.size()), word) && !take(word.size()).empty();
  }
  std::string_view take(std::size_t n) {
    const std::string_view taken = text_.substr(0, n);
    text_.remove_prefix(taken.size());
    return taken;
  }
  char front() const { return text_.empty() ? '\0' : text_[0]; }
  std::string_view rest() const { return text_; }
  bool at_end() const { return text_.empty(); }

 private:
  std::string_view text_;
};

// Values of the fields in a cell.
struct Parts {
  int year = 2000, month = 1, day = 1, week = 0, weekday = 1, day_of_year = 0;
  int hour = 0, minute = 0, second = 0, micros = 0;
  std::optional<std::int64_t> offset;  // from UTC, in microseconds
};

// Fields of digits: their count, and the values from `low` to `high`.
struct Digits {
  char field;
  std::size_t least, most;
  int low, high;
  int Parts::*into;
};
constexpr Digits k_digit_fields[] = {
    {'Y', 4, 4, 0, 9999, &Parts::year}, {'y', 2, 2, 0, 99, &Parts::year},   {'z', 2, 2, 0, 99, &Parts::year},
    {'m', 1, 2, 1, 12, &Parts::month},  {'d', 1, 2, 1, 31, &Parts::day},    {'j', 3, 3, 1, 366, &Parts::day_of_year},
    {'v', 2, 2, 1, 53, &Parts::week},   {'u', 1, 1, 1, 7, &Parts::weekday}, {'h', 1, 2, 0, 23, &Parts::hour},
    {'i', 1, 2, 1, 12, &Parts::hour},   {'n', 2, 2, 0, 59, &Parts::minute}, {'s', 2, 2, 0, 59, &Parts::second},
};

// Returns the Monday of an ISO week. Week 1 contains 4 January.
std::optional<Timestamp> monday(int year, int week) {
  const std::optional<Timestamp> fourth = midnight(year, 1, 4);
  if (!fourth || week < 1 || week > 53) return std::nullopt;
  const auto weekday = std::chrono::weekday(std::chrono::sys_days(calendar_day(*fourth))).iso_encoding();
  const Timestamp at{fourth->micros - (weekday - 1) * k_day + (week - 1) * 7 * k_day};
  const Timestamp thursday{at.micros + 3 * k_day};
  return static_cast<int>(calendar_day(thursday).year()) == year ? std::optional(at) : std::nullopt;
}

std::optional<Timestamp> timestamp(const Parts& p) {
  std::optional<Timestamp> day = p.week > 0          ? monday(p.year, p.week)
                                 : p.day_of_year > 0 ? midnight(p.year, 1, 1)
                                                     : midnight(p.year, p.month, p.day);
  if (!day) return std::nullopt;
  if (p.week > 0) day->micros += (p.weekday - 1) * k_day;
  if (p.day_of_year > 0) day->micros += (p.day_of_year - 1) * k_day;
  if (p.day_of_year > 0 && static_cast<int>(calendar_day(*day).year()) != p.year) return std::nullopt;
  return Timestamp{day->micros + (p.hour * 3600LL + p.minute * 60 + p.second) * k_second + p.micros};
}

// Reads "Z", "UTC", "+01:00" or "-0330".
bool read_offset(Scanner& s, Parts& p) {
  p.offset = 0;
  if (s.skip_word("UTC") || s.skip_word("GMT") || s.skip('Z')) return true;
  const bool is_west = s.front() == '-';
  if (!s.skip_any("+-")) return false;
  const std::optional<int> hours = s.number(2, 2);
  const bool colon = s.skip(':');
  const std::optional<int> minutes = s.number(2, 2);
  p.offset = (is_west ? -1 : 1) * (hours.value_or(0) * 3600LL + minutes.value_or(0) * 60) * k_second;
  return hours && *hours <= 18 && (minutes ? *minutes < 60 : !colon);
}

// Reads the digits of a second's decimals; false if one is finer than a microsecond.
bool read_decimals(Scanner& s, Parts& p, DateFormat& format) {
  if (!is_digit(s.front())) return false;
  int decimals = 0;
  for (int unit = 100'000; is_digit(s.front()); unit /= 10, ++decimals) {
    const int digit = *s.number(1, 1);
    if (digit > 0 && unit == 0) return false;
    p.micros += digit * unit;
  }
  format.decimals = p.micros == 0 ? 0 : std::min(decimals, 6);
  return true;
}

// `fixed`: digits touch, so that a field has the most it can have.
bool read_digits(Scanner& s, const Digits& of, bool fixed, Parts& p, DateFormat& format) {
  const std::size_t before = s.rest().size();
  const std::optional<int> value = s.number(fixed ? of.most : of.least, of.most);
  if (!value || *value < of.low || *value > of.high) return false;
  if (before - s.rest().size() < of.most) (has("hi", of.field) ? format.padded_hour : format.padded) = false;
  p.*of.into = of.field == 'i' ? *value % 12 : *value;
  if (of.field == 'y') p.year += p.year >= 69 ? 1900 : 2000;
  if (of.field == 'z') p.year += 1900;
  return true;
}

// Reads "Q1" or, if the number comes first, "1Q".
bool read_quarter(Scanner& s, bool is_behind, Parts& p) {
  if (is_behind && !s.skip_word("Q")) return false;
  const std::optional<int> quarter = s.number(1, 1);
  p.month = 3 * quarter.value_or(1) - 2;
  return quarter && *quarter >= 1 && *quarter <= 4 && (is_behind || s.skip_word("Q"));
}

bool read_field(Scanner& s, char field, bool fixed, Parts& p, DateFormat& format) {
  const auto* const digits = std::ranges::find(k_digit_fields, field, &Digits::field);
  if (digits != std::end(k_digit_fields)) return read_digits(s, *digits, fixed, p, format);
  if (field == 'q' || field == 'Q') return read_quarter(s, field == 'q', p);
  if (field == 'w') return s.skip_word("W") && read_field(s, 'v', true, p, format);
  if (field == 'f') return read_decimals(s, p, format);
  if (field == 'p') {
    const bool pm = s.skip_word("PM");
    p.hour += pm ? 12 : 0;
    return pm || s.skip_word("AM");
  }
  if (field == 'o') {
    const std::string_view zone = s.rest();
    const bool is_read = read_offset(s, p);
    format.zone = zone.substr(0, zone.size() - s.rest().size());
    return is_read;
  }
  const std::string_view name = s.letters();
  if (field == 'a' || field == 'A') return is_weekday(name);
  format.full_names = name.size() > 4;
  p.month = month_of(name);
  return p.month > 0;
}

// Reads the separators at a "~" of the pattern. Between numbers they must be the same everywhere.
bool read_separators(Scanner& s, const Pattern& pattern, std::size_t at, std::string& found) {
  const bool names = pattern.fields.find_first_of(k_name_fields) != std::string_view::npos;
  const std::size_t before = s.rest().size();
  const std::string_view text = s.rest();
  while (before - s.rest().size() < (names ? 2 : 1) && s.skip_any(pattern.separators)) {
  }
  const std::string_view taken = text.substr(0, before - s.rest().size());
  const bool touches = has(k_number_fields, pattern.fields[at - 1]) && has(k_number_fields, pattern.fields[at + 1]);
  if (taken.empty() && (!names || touches)) return false;
  if (!names && !found.empty() && found != taken) return false;
  found = taken;
  return true;
}

// Reads a time after a day, such as " 12:00", "T21", " 21h" or ", 3:30:15.250 PM", with the zone, up to the end of the
// cell. `compact`: "T2100" too.
bool read_clock(Scanner& s, bool compact, Parts& p, DateFormat& format) {
  const bool is_t = s.skip('T');
  if (is_t) format.clock = "\\T";
  else if (s.front() == ',' || s.front() == ' ') format.clock = s.take(1);
  else return false;
  while (s.skip(' ')) format.clock += ' ';
  const std::size_t hour_at = format.clock.size();
  const auto read = [&](char field, bool fixed) {
    format.clock += field;
    return read_field(s, field, fixed, p, format);
  };
  if (!read('h', compact)) return false;
  bool is_whole = is_t;  // the hour alone is a time
  if (s.skip(':')) {
    format.clock += ':';
    if (!read('n', true)) return false;
    if (s.skip(':')) {
      format.clock += ':';
      if (!read('s', true) || (s.skip_any(".,") && !read_decimals(s, p, format))) return false;
    }
    is_whole = true;
  } else if (compact && is_digit(s.front())) {
    if (!read('n', true) || (is_digit(s.front()) && !read('s', true))) return false;
    is_whole = true;
  } else if (s.skip('h')) {
    format.clock += "\\h";
    if (is_digit(s.front()) && !read('n', true)) return false;
    is_whole = true;
  }
  const Scanner before = s;
  const bool blank = s.skip(' '), am = s.skip_word("AM"), pm = !am && s.skip_word("PM");
  if (am || pm) {
    if (p.hour < 1 || p.hour > 12) return false;
    p.hour = p.hour % 12 + (pm ? 12 : 0);
    format.clock[hour_at] = 'i';
    format.clock += blank ? " p" : "p";
  } else {
    s = before;
    if (!is_whole) return false;
  }
  if (s.at_end()) return true;
  format.zone = s.rest();
  s.skip(' ');
  return read_offset(s, p) && s.at_end();
}

// `given`: data.date_format, which has all of the cell.
std::optional<DateReading> read(std::string_view cell, const Pattern& pattern, const std::string& given = {}) {
  Scanner s(cell);
  DateReading r;
  Parts p;
  std::string separators;
  char before = 0;
  for (std::size_t i = 0; i < pattern.fields.size(); ++i) {
    const bool literal = pattern.fields[i] == '\\' && i + 1 < pattern.fields.size();
    if (literal) r.format.pattern += pattern.fields[i++];
    const char c = pattern.fields[i];
    if (c == '~' && given.empty()) {
      if (!read_separators(s, pattern, i, separators)) return std::nullopt;
      r.format.pattern += separators;
      before = c;
      continue;
    }
    r.format.pattern += c;
    const bool field = !literal && (has(k_number_fields, c) || has(k_name_fields, c) || has(k_mark_fields, c));
    const bool fixed = has(k_number_fields, before) || before == 'M' ||
                       (i + 1 < pattern.fields.size() && has(k_number_fields, pattern.fields[i + 1]));
    if (field ? !read_field(s, c, fixed, p, r.format) : !s.skip(c)) return std::nullopt;
    before = field || !literal ? c : '\\';
  }
  r.format.given = given;
  const bool may_have_time = given.empty() && has_field(pattern.fields, "dju") && !has_field(pattern.fields, "h");
  if (!s.at_end() && !(may_have_time && read_clock(s, pattern.fields == "Ymd", p, r.format))) return std::nullopt;
  const std::optional<Timestamp> at = timestamp(p);
  if (!at) return std::nullopt;
  r.at = *at;
  r.offset = p.offset;
  return r;
}

// Returns the digits of a whole number, which may be written as 1700.0; "" for other cells.
std::string whole_digits(std::string_view cell) {
  if (!cell.empty() && std::ranges::all_of(cell, is_digit)) return std::string(cell);
  const std::optional<double> value = number_in(cell);
  if (!value || !(*value >= 1000 && *value < 9e15) || *value != std::floor(*value)) return "";
  return std::to_string(static_cast<std::int64_t>(*value));
}

std::optional<DateReading> read_number(const std::string& digits, const NumberForm& form) {
  if (digits.size() != form.digits) return std::nullopt;
  if (form.unit == 0) {
    const std::optional<DateReading> r = read(digits, {form.pattern, ""});
    // Long numbers outside these years are rarely dates.
    const int year = r ? static_cast<int>(calendar_day(r->at).year()) : 0;
    return form.digits == 4 || form.digits == 8 || (year >= 1600 && year < 2400) ? r : std::nullopt;
  }
  std::int64_t value = 0;
  const bool fits = std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc();
  if (!fits || digits[0] == '0' || value % form.per_micro != 0) return std::nullopt;
  DateReading r{{value / form.per_micro * form.unit}, 0, {}};
  r.format.pattern = form.pattern;
  return r;
}

// Removes surrounding blanks and a leading weekday.
std::string_view date_part(std::string_view cell) {
  cell = trimmed(cell);
  Scanner s(cell);
  if (!is_weekday(s.letters()) || !s.skip_any(",. ")) return cell;
  while (s.skip(' ')) {
  }
  return s.rest();
}

}  // namespace

std::vector<DateReading> date_readings(std::string_view cell, DateNumbers numbers) {
  std::vector<DateReading> readings;
  const std::string_view text = date_part(cell);
  if (text.size() < 4 || text.size() > 64) return readings;
  for (const Pattern& pattern : k_patterns) {
    std::optional<DateReading> r = read(text, pattern);
    if (!r || (r->format.pattern == "Ymd" && r->format.clock.empty())) continue;
    std::string of_century = r->format.pattern;
    std::ranges::replace(of_century, 'y', 'z');
    readings.push_back(std::move(*r));
    if (of_century == readings.back().format.pattern) continue;
    if (std::optional<DateReading> other = read(text, {of_century, ""})) readings.push_back(std::move(*other));
  }
  if (numbers == DateNumbers::no) return readings;
  const std::string digits = whole_digits(text);
  for (const NumberForm& form : k_numbers)
    if (std::optional<DateReading> r = read_number(digits, form)) readings.push_back(std::move(*r));
  return readings;
}

bool is_date_in_digits(std::string_view cell) {
  return std::ranges::any_of(date_readings(cell), [](const DateReading& r) {
    return !r.format.is_weak() && !has_field(r.format.pattern, k_name_fields);
  });
}

std::vector<DateReading> date_readings_in(std::string_view cell, const std::string& form) {
  // The name of a format ends in the century of its two-digit years.
  const std::string given = form.substr(0, form.find(" (years "));
  std::string pattern = pattern_of_directives(given);
  if (!has_field(pattern, "Yyz"))
    throw Error(ErrorKind::usage, "data.date_format", "has no year: " + in_quotes(form), "Add %Y or %y");
  std::vector<DateReading> readings;
  for (const char century : {'y', 'z'}) {
    if (century == 'z') {
      if (!has_field(pattern, "y")) break;
      for (std::size_t i = 0; i < pattern.size(); ++i)
        if (pattern[i] == 'y' && (i == 0 || pattern[i - 1] != '\\')) pattern[i] = 'z';
    }
    std::optional<DateReading> r = read(trimmed(cell), {pattern, ""}, given);
    if (r && (given == form || r->format.name() == form)) readings.push_back(std::move(*r));
  }
  return readings;
}

std::optional<DateReading> read_date(std::string_view cell, const DateFormat& format) {
  const std::string_view text = format.given.empty() ? date_part(cell) : trimmed(cell);
  if (text.size() > 64) return std::nullopt;
  const bool is_number = format.pattern.find_first_not_of(k_number_fields) == std::string::npos;
  if (format.given.empty() && (is_number || unix_form(format.pattern) != nullptr)) {
    const std::string digits = whole_digits(text);
    for (const NumberForm& form : k_numbers)
      if (form.pattern == format.pattern)
        if (std::optional<DateReading> r = read_number(digits, form)) return r;
    if (format.pattern != "Ymd") return std::nullopt;
  }
  return read(text, {format.pattern, ""}, format.given);
}

}  // namespace unroll
