// SPDX-License-Identifier: Apache-2.0
#include "core/data/dates/time_zone.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "core/support/text/digits.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll {

namespace {

constexpr std::size_t k_most_bytes = std::size_t{1} << 20;
constexpr std::uint64_t k_most_changes = 20'000;
constexpr std::int64_t k_day_seconds = 86400, k_most_offset = 26 * 3600;  // RFC 8536, section 3.2

std::int64_t big_endian(std::string_view bytes) {
  std::uint64_t value = (static_cast<unsigned char>(bytes[0]) & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return static_cast<std::int64_t>(value);
}

std::int64_t seconds_of(Timestamp at) {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::microseconds(at.micros)).count();
}

// The day and the time of a change in each year, on the clock before it.
struct YearlyChange {
  int month = 0, week = 0, weekday = 0;  // the week 5 is the last one of the month
  int day = 0;                           // without a month: of the year, from 0
  bool skips_leap_day = false;           // `day` counts from 1 and never 29 February
  std::int64_t time = 2 * 3600;          // seconds, from -167 to 167 hours

  std::int64_t in(int of_year) const {  // seconds since 1970
    using namespace std::chrono;
    const auto year = std::chrono::year(of_year);
    const auto in_month = year / std::chrono::month(static_cast<unsigned>(month));
    const auto on = std::chrono::weekday(static_cast<unsigned>(weekday));
    const int days = skips_leap_day ? day - (year.is_leap() && day >= 60 ? 0 : 1) : day;
    const sys_days date = month == 0  ? sys_days(year / January / 1) + std::chrono::days(days)
                          : week == 5 ? sys_days(in_month / on[last])
                                      : sys_days(in_month / on[static_cast<unsigned>(week)]);
    return date.time_since_epoch().count() * k_day_seconds + time;
  }
};

// Reads "CET-1CEST,M3.5.0,M10.5.0/3", the rule for later years at the end of a file (POSIX, environment variable TZ).
class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : text_(text) {}
  bool at_end() const { return text_.empty(); }
  bool is_at(char c) const { return text_.starts_with(c); }
  bool skip_name() {
    const bool quoted = skip('<');
    std::size_t n = 0;
    while (n < text_.size() && (quoted ? text_[n] != '>' : std::isalpha(static_cast<unsigned char>(text_[n])) != 0))
      ++n;
    text_.remove_prefix(n);
    return n > 0 && (!quoted || skip('>'));
  }
  // Reads "-3:30" as seconds.
  std::optional<std::int64_t> time() {
    const bool minus = skip('-');
    if (!minus) skip('+');
    int hours = 0, minutes = 0, seconds = 0;
    if (!number(hours, 167) || (skip(':') && (!number(minutes, 59) || (skip(':') && !number(seconds, 59)))))
      return std::nullopt;
    return (minus ? -1 : 1) * (hours * 3600LL + minutes * 60 + seconds);
  }
  // Reads ",M3.5.0/3", ",J60" or ",59".
  std::optional<YearlyChange> change() {
    YearlyChange c;
    if (!skip(',')) return std::nullopt;
    if (skip('M')) {
      const bool is_read = number(c.month, 12) && skip('.') && number(c.week, 5) && skip('.') && number(c.weekday, 6);
      if (!is_read || c.month == 0 || c.week == 0) return std::nullopt;
    } else {
      c.skips_leap_day = skip('J');
      if (!number(c.day, 365) || (c.skips_leap_day && c.day == 0)) return std::nullopt;
    }
    const std::optional<std::int64_t> time = skip('/') ? this->time() : c.time;
    c.time = time.value_or(0);
    return time ? std::optional(c) : std::nullopt;
  }

 private:
  bool skip(char c) {
    if (!is_at(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool number(int& value, int most) {
    if (text_.empty() || !is_digit(text_[0])) return false;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    text_.remove_prefix(end - text_.data());
    return error == std::errc() && value <= most;
  }

  std::string_view text_;
};

}  // namespace

TimeZone TimeZone::named(const std::string& name) {
  const std::string path = name.starts_with('/') ? name : "/usr/share/zoneinfo/" + name;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::usage, "data.timezone", in_quotes(name) + " is not a time zone of this system: " + why,
                "Name one such as \"Europe/Berlin\", install the package tzdata, or give the path of a TZif file");
  };
  if (name.empty() || path.find("..") != std::string::npos) refuse("not an IANA name");
  Bytes bytes;
  try {
    bytes = disk().read(path, k_most_bytes);
  } catch (const Error&) {
    refuse("there is no file " + path);
  }
  return {std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name};
}

TimeZone::TimeZone(std::string_view tzif, std::string name) : name_(std::move(name)) {
  if (!read(tzif))
    throw Error(ErrorKind::input_file, name_, "is not a time zone (a TZif file without leap seconds)",
                "Set data.timezone to another name, such as \"Europe/Berlin\", or install the package tzdata again");
}

bool TimeZone::read(std::string_view rest) {
  const auto take = [&](std::uint64_t n) {
    const std::string_view taken = rest.substr(0, n);
    rest.remove_prefix(taken.size());
    return taken;
  };
  for (const std::uint64_t size : {4, 8}) {  // bytes of a time: a second part repeats the first one with longer times
    const std::string_view head = take(44);
    if (head.size() < 44 || !head.starts_with("TZif")) return false;
    std::array<std::uint64_t, 6> n{};  // marks of UTC and of standard time, leap seconds, times, offsets, characters
    for (std::size_t i = 0; i < n.size(); ++i) n[i] = big_endian(head.substr(20 + 4 * i, 4)) & 0xffffffff;
    const std::uint64_t n_times = n[3], n_types = n[4];
    const std::uint64_t all = n_times * (size + 1) + n_types * 6 + n[5] + n[2] * (size + 4) + n[1] + n[0];
    if (all > rest.size() || n_times > k_most_changes || n[2] > 0) return false;
    const std::string_view times = take(n_times * size), kinds = take(n_times), types = take(n_types * 6);
    take(n[5] + n[1] + n[0]);
    if (size == 4 && head[4] >= '2') continue;
    for (std::size_t i = 0; i <= n_times; ++i) {  // the first offset is that before all times
      const std::size_t type = i == 0 ? 0 : static_cast<unsigned char>(kinds[i - 1]);
      if (type >= n_types) return false;
      const std::int64_t at = i == 0 ? INT64_MIN : big_endian(times.substr((i - 1) * size, size));
      changes_.push_back({at, big_endian(types.substr(type * 6, 4))});
      if ((i > 0 && at <= changes_[i - 1].at) || std::abs(changes_[i].offset) > k_most_offset) return false;
    }
    break;
  }
  return !rest.starts_with('\n') || add_yearly_changes(rest.substr(1, rest.find('\n', 1) - 1));
}

bool TimeZone::add_yearly_changes(std::string_view rule) {
  constexpr int k_first_year = 1970, k_last_year = 9999;
  RuleReader in(rule);
  if (in.at_end()) return true;
  const std::optional<std::int64_t> west = in.skip_name() ? in.time() : std::nullopt;
  if (!west || in.at_end()) return west.has_value();
  std::optional<std::int64_t> summer_west = *west - 3600;
  if (!in.skip_name() || (!in.is_at(',') && !(summer_west = in.time()))) return false;
  const std::optional<YearlyChange> begin = in.change(), end = begin ? in.change() : std::nullopt;
  if (!end || !in.at_end() || std::max(std::abs(*west), std::abs(*summer_west)) > k_most_offset) return false;
  const std::int64_t last = changes_.back().at;
  const auto add = [&](const Change& change) {
    if (change.at > last) changes_.push_back(change);
  };
  for (int year = k_first_year; year <= k_last_year; ++year) {
    add({begin->in(year) + *west, -*summer_west});
    add({end->in(year) + *summer_west, -*west});
  }
  std::ranges::stable_sort(changes_, {}, &Change::at);
  return true;
}

std::int64_t TimeZone::offset_at(Timestamp utc) const {
  return (std::ranges::upper_bound(changes_, seconds_of(utc), {}, &Change::at) - 1)->offset * k_second;
}

std::vector<Timestamp> TimeZone::moments_of(Timestamp on_clock) const {
  const std::int64_t seconds = seconds_of(on_clock);
  std::vector<Timestamp> moments;
  auto change = std::ranges::upper_bound(changes_, seconds - k_most_offset, {}, &Change::at) - 1;
  for (; change != changes_.end() && change->at <= seconds + k_most_offset; ++change) {
    const std::int64_t at = seconds - change->offset;
    const bool is_over = change + 1 != changes_.end() && at >= (change + 1)->at;
    if (at >= change->at && !is_over) moments.push_back({on_clock.micros - change->offset * k_second});
  }
  return moments;
}

Timestamp TimeZone::moment_of(Timestamp on_clock) const {
  const std::vector<Timestamp> moments = moments_of(on_clock);
  if (!moments.empty()) return moments[0];
  return {on_clock.micros - offset_at({on_clock.micros - k_day})};
}

}  // namespace unroll
