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

namespace unroll {

namespace {

// A pattern. "~" stands for the separators in a cell: one of `separators` or, around names, up to two.
struct Pattern {
  std::string_view fields, separators;
};
constexpr Pattern k_patterns[] = {
    {"Y~m~d", "-/."}, {"d~m~Y", "./-"},   {"m~d~Y", "/-"},    {"Y~m", "-/"},      {"m~Y", "/-"},
    {"YMm", ""},      {"b~d~Y", "-/., "}, {"d~b~Y", "-/., "}, {"Y~b~d", "-/., "}, {"b~Y", "-/., "},
    {"Y~b", "-/., "}, {"Y~q", "-/:. "},   {"q~Y", "-/. "},    {"Y~w", "- "},
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
  int year = 0, month = 1, day = 1, week = 0;
  std::int64_t time = 0;  // microseconds since midnight
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
  const std::optional<Timestamp> day = p.week > 0 ? monday(p.year, p.week) : midnight(p.year, p.month, p.day);
  return day ? std::optional(Timestamp{day->micros + p.time}) : std::nullopt;
}

bool read_field(Scanner& s, char field, bool fixed, Parts& p, DateFormat& format) {
  const auto small = [&](int& into) {
    const std::size_t before = s.rest().size();
    const std::optional<int> value = s.number(fixed ? 2 : 1, 2);
    if (value) into = *value;
    if (before - s.rest().size() == 1) format.padded = false;
    return value.has_value();
  };
  int time = 0;
  switch (field) {
    case 'Y': {
      const std::optional<int> year = s.number(4, 4);
      p.year = year.value_or(0);
      return year.has_value();
    }
    case 'm': return small(p.month) && p.month >= 1;
    case 'd': return small(p.day);
    case 'h': return small(time) && time < 24 && (p.time += time * 3600 * k_second) >= 0;
    case 'n': return small(time) && time < 60 && (p.time += time * 60 * k_second) >= 0;
    case 's': return small(time) && time < 60 && (p.time += time * k_second) >= 0;
    case 'b': {
      const std::string_view name = s.letters();
      p.month = month_of(name);
      format.full_names = name.size() > 4;
      return p.month > 0;
    }
    case 'q': {
      const std::optional<int> quarter = s.skip_word("Q") ? s.number(1, 1) : std::nullopt;
      p.month = 3 * quarter.value_or(1) - 2;
      return quarter && *quarter >= 1 && *quarter <= 4;
    }
    default: {
      const std::optional<int> week = s.skip_word("W") ? s.number(2, 2) : std::nullopt;
      p.week = week.value_or(0);
      return p.week > 0;
    }
  }
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

// Reads a time after a day, such as "12:00" or "3:30:15.250 PM", with the zone.
bool read_time(Scanner& s, Parts& p, DateFormat& format) {
  std::optional<int> hour = s.number(1, 2);
  if (!hour || !s.skip(':')) return false;
  const std::optional<int> minute = s.number(2, 2);
  if (!minute || *minute > 59) return false;
  std::int64_t micros = 0;
  if (s.skip(':')) {
    const std::optional<int> second = s.number(2, 2);
    if (!second || *second > 59) return false;
    micros = *second * k_second;
    if (s.skip_any(".,")) {
      if (!is_digit(s.front())) return false;
      int decimals = 0;
      for (std::int64_t unit = k_second / 10; is_digit(s.front()); unit /= 10, ++decimals) {
        const int digit = *s.number(1, 1);
        if (digit > 0 && unit == 0) return false;  // finer than a microsecond
        micros += digit * unit;
      }
      format.decimals = micros % k_second == 0 ? 0 : std::min(decimals, 6);
    }
  }
  const std::string_view before = s.rest();
  s.skip(' ');
  const bool am = s.skip_word("AM"), pm = !am && s.skip_word("PM");
  if (!am && !pm) s = Scanner(before);
  if (am || pm) {
    if (*hour < 1 || *hour > 12) return false;
    hour = *hour % 12 + (pm ? 12 : 0);
  }
  if (*hour > 23) return false;
  format.has_time = true;
  p.time = (*hour * 3600 + *minute * 60) * k_second + micros;
  return true;
}

// Reads "Z", " UTC", "+01:00" or "-0330" up to the end of the cell.
bool read_zone(Scanner& s, DateFormat& format) {
  const std::string_view zone = s.rest();
  s.skip(' ');
  if (!s.skip_word("UTC") && !s.skip_word("GMT") && !s.skip('Z') && !s.at_end()) {
    if (!s.skip_any("+-")) return false;
    const std::optional<int> hours = s.number(2, 2);
    const bool colon = s.skip(':');
    const std::optional<int> minutes = s.number(2, 2);
    if (!hours || *hours > 18 || (colon && !minutes) || (minutes && *minutes > 59)) return false;
  }
  format.zone = zone;
  return s.at_end();
}

std::optional<DateReading> read(std::string_view cell, const Pattern& pattern) {
  Scanner s(cell);
  DateReading r;
  Parts p;
  std::string separators;
  for (std::size_t i = 0; i < pattern.fields.size(); ++i) {
    const char c = pattern.fields[i];
    if (c == '~') {
      if (!read_separators(s, pattern, i, separators)) return std::nullopt;
      r.format.pattern += separators;
      continue;
    }
    r.format.pattern += c;
    const bool field = has(k_number_fields, c) || has(k_name_fields, c);
    const auto follows = [&](std::size_t at) {
      return at < pattern.fields.size() && has(k_number_fields, pattern.fields[at]);
    };
    const bool fixed = follows(i + 1) || (i > 0 && follows(i - 1)) || (i > 0 && pattern.fields[i - 1] == 'M');
    if (field ? !read_field(s, c, fixed, p, r.format) : !s.skip(c)) return std::nullopt;
  }
  if (!s.at_end()) {
    if (!has(pattern.fields, 'd') || !(s.skip('T') || s.skip_any(", "))) return std::nullopt;
    while (s.skip(' ')) {
    }
    if (!read_time(s, p, r.format) || !read_zone(s, r.format)) return std::nullopt;
  }
  const std::optional<Timestamp> at = timestamp(p);
  if (!at) return std::nullopt;
  r.at = *at;
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
  DateReading r{{value / form.per_micro * form.unit}, {}};
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
  for (const Pattern& pattern : k_patterns)
    if (std::optional<DateReading> r = read(text, pattern)) readings.push_back(std::move(*r));
  if (numbers == DateNumbers::no) return readings;
  const std::string digits = whole_digits(text);
  for (const NumberForm& form : k_numbers)
    if (std::optional<DateReading> r = read_number(digits, form)) readings.push_back(std::move(*r));
  return readings;
}

bool is_date_in_digits(std::string_view cell) {
  return std::ranges::any_of(date_readings(cell), [](const DateReading& r) {
    return r.format.pattern.find_first_of(k_name_fields) == std::string::npos;
  });
}

std::optional<DateReading> read_date(std::string_view cell, const std::string& pattern) {
  const std::string_view text = date_part(cell);
  if (text.size() > 64) return std::nullopt;
  if (pattern.find_first_not_of(k_number_fields) == std::string::npos || unix_form(pattern) != nullptr) {
    const std::string digits = whole_digits(text);
    for (const NumberForm& form : k_numbers)
      if (form.pattern == pattern)
        if (std::optional<DateReading> r = read_number(digits, form)) return r;
    return std::nullopt;
  }
  return read(text, {pattern, ""});
}

}  // namespace unroll
