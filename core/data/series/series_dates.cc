// SPDX-License-Identifier: Apache-2.0
#include "core/data/series/series_dates.h"

#include <algorithm>
#include <chrono>

#include "core/data/dates/date_patterns.h"
#include "core/data/dates/date_words.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr const char* k_write_dates =
    "Write dates such as 2024-01-31, with four digits for the year, give their format, such as data.date_format = "
    "\"%d/%m/%y\", or set data.date = \"none\" to ignore dates";

bool has_year(const DateSequence& way) { return way.format().has_year(); }

// True if dates in two-digit years lie more than a year ahead.
bool is_future(Timestamp at) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return at.micros > std::chrono::duration_cast<std::chrono::microseconds>(now).count() + 366 * k_day;
}

// Two ways may differ in the century only: the later one is used unless all its dates are in the future.
void choose_century(std::vector<DateSequence>& ways) {
  std::string dropped;  // patterns
  for (const DateSequence& way : ways) {
    std::string twin = way.format().pattern;
    std::ranges::replace(twin, 'z', 'y');
    const auto at = std::ranges::find(ways, twin, [](const DateSequence& w) { return w.format().pattern; });
    if (twin == way.format().pattern || at == ways.end()) continue;
    dropped += "|" + (is_future(at->first()) ? twin : way.format().pattern) + "|";
  }
  std::erase_if(ways, [&](const DateSequence& way) {
    return dropped.find("|" + way.format().pattern + "|") != std::string::npos;
  });
}

// True if steps lead from one time of the clock to another rather than from moment to moment. Days and longer steps do,
// and so do shorter ones that are even only on the clock, such as 0:00, 6:00, 12:00, 18:00, if it shows all of them.
bool counts_on_clock(const DateSequence& on_clock, const DateSequence& in_utc) {
  const DateStep step = on_clock.step();
  const bool is_long = step.months > 0 || step.micros % k_day == 0 || step.slots > 0;
  const bool is_even = on_clock.is_even() || on_clock.size() == 1;
  if (!on_clock.is_in_order()) return false;
  return is_long ? is_even || !in_utc.is_even() : is_even && !in_utc.is_even() && !in_utc.misfit();
}

// Leaves one of the two ways of each format, in UTC and on the clock.
void choose_clock(std::vector<DateSequence>& ways) {
  for (std::size_t i = 0; i + 1 < ways.size(); ++i) {
    const bool are_two = ways[i].is_in_utc() && !ways[i + 1].is_in_utc();
    if (!are_two || ways[i].format().pattern != ways[i + 1].format().pattern) continue;
    ways.erase(ways.begin() + static_cast<std::ptrdiff_t>(i + !counts_on_clock(ways[i + 1], ways[i])));
  }
}

}  // namespace

SeriesDates::SeriesDates(const CsvReader& reader, DateColumn column, std::span<const std::size_t> values,
                         std::optional<std::size_t> id)
    : column_(std::move(column)), none_(column_.name == "none"), has_ids_(id.has_value()) {
  if (!column_.zone.empty()) zone_ = std::make_shared<const TimeZone>(TimeZone::named(column_.zone));
  if (is_given_form(column_.form)) date_readings_in("", column_.form);  // throws on an unknown directive
  if (!column_.name.empty() && !none_) named_ = reader.column(column_.name);
  for (std::size_t c = 0; c < reader.n_columns(); ++c)
    if (named_ == c || (id != c && std::ranges::find(values, c) == values.end())) undecided_.push_back(c);
}

void SeriesDates::begin_series() {
  for (Candidate& candidate : candidates_)
    for (DateSequence& way : candidate.ways) way.begin_series();
}

void SeriesDates::see(const CsvReader& reader, std::span<const std::string> cells, std::size_t line) {
  if (first_line_ == 0) first_line_ = line;
  std::erase_if(undecided_, [&](std::size_t c) {
    if (reader.is_missing(cells[c])) return false;
    decide(reader, c, cells[c], line);
    return true;
  });
  for (Candidate& candidate : candidates_)
    for (DateSequence& way : candidate.ways)
      way.see(reader.is_missing(cells[candidate.column]) ? "" : cells[candidate.column], line);
  unread_.see(reader, cells, line);
}

std::vector<DateReading> SeriesDates::readings_of(const CsvReader& reader, std::size_t column,
                                                  const std::string& cell) const {
  if (none_ || named_.value_or(column) != column) return {};
  if (is_given_form(column_.form)) return date_readings_in(cell, column_.form);
  const bool numbers = named_ || (!reader.header().empty() && is_date_name(reader.column_name(column)));
  std::vector<DateReading> readings = date_readings(cell, numbers ? DateNumbers::yes : DateNumbers::no);
  const auto keep = [&](const auto& is_kept) {
    if (std::ranges::any_of(readings, is_kept))
      std::erase_if(readings, [&](const DateReading& r) { return !is_kept(r); });
  };
  keep([&](const DateReading& r) { return r.format.name() == column_.form; });
  keep([](const DateReading& r) { return !r.format.is_weak(); });
  if (std::ranges::none_of(readings, [](const DateReading& r) { return r.format.has_year(); })) readings.clear();
  return readings;
}

void SeriesDates::decide(const CsvReader& reader, std::size_t column, const std::string& cell, std::size_t line) {
  const std::vector<DateReading> readings = readings_of(reader, column, cell);
  const std::string of = is_given_form(column_.form) ? " of the format " + in_quotes(column_.form) : "";
  if (readings.empty() && named_ == column)
    reader.refuse(line, column, in_quotes(cell) + " is not a date" + of, k_write_dates);
  const bool is_weak = !readings.empty() && readings[0].format.is_weak() && !named_ && column_.form.empty();
  if (readings.empty() || is_weak) unread_.add(reader, column, cell);
  if (readings.empty()) return;
  Candidate candidate{column, cell, number_in(cell).has_value(), is_weak, {}};
  for (const DateReading& r : readings)
    for (const bool in_utc : {true, false}) {
      if (in_utc ? !zone_ || column_.steps == "local" : zone_ && column_.steps == "utc") continue;
      candidate.ways.emplace_back(r.format, column_.calendar, zone_, in_utc);
      if (line > first_line_) candidate.ways.back().see("", first_line_);
    }
  candidates_.push_back(std::move(candidate));
}

bool SeriesDates::are_newest_first() const {
  if (candidates_.empty()) return false;
  const Candidate& candidate = *std::ranges::min_element(candidates_, {}, rank);
  if (candidate.is_weak) return false;
  const std::vector<DateSequence>& ways = candidate.ways;
  const auto is_reversed = [](const DateSequence& way) {
    return !way.misfit() && way.disorder() && way.is_newest_first();
  };
  return std::ranges::none_of(ways, &DateSequence::is_in_order) && std::ranges::any_of(ways, is_reversed);
}

void SeriesDates::finish(const CsvReader& reader, const std::string& file) {
  undecided_.clear();
  std::ranges::sort(candidates_, {}, rank);
  while (!candidates_.empty()) {
    choose_way(reader, file);
    if (!candidates_[0].ways.empty()) break;
    candidates_.erase(candidates_.begin(), candidates_[0].is_weak ? candidates_.begin() + 1 : candidates_.end());
  }
  if (candidates_.empty() && is_given_form(column_.form) && !none_)
    throw Error(ErrorKind::usage, file, "no column begins with a date of data.date_format = " + in_quotes(column_.form),
                "Correct data.date_format, or set data.date to the column");
  if (candidates_.empty() && zone_)
    throw Error(ErrorKind::usage, file, "has no column of dates for data.timezone = " + in_quotes(column_.zone),
                "Set data.date to the column, or leave data.timezone out");
  if (candidates_.empty()) {
    if (!none_) std::ranges::move(unread_.date_warnings(reader), std::back_inserter(warnings_));
    if (!has_ids_) std::ranges::move(unread_.series_warnings(reader), std::back_inserter(warnings_));
    return;
  }
  for (std::size_t c = 1; c < candidates_.size(); ++c)
    if (!candidates_[c].is_number)
      warnings_.push_back("column '" + reader.column_name(candidates_[c].column) +
                          "' has dates too and is not used. Set data.date to it, or to '" +
                          reader.column_name(column()) + "' to confirm");
  candidates_.resize(1);
}

// Leaves the formats that fit all cells in order. Weak ones must fit a step too, and those without a year do not count.
void SeriesDates::keep_regular(const CsvReader& reader, const std::string& file) {
  std::vector<DateSequence>& ways = candidates_[0].ways;
  choose_clock(ways);
  if (candidates_[0].is_weak) {
    std::erase_if(ways, [](const DateSequence& way) {
      return !way.is_in_order() || (has_year(way) && (!way.is_even() || way.is_sparse()));
    });
    if (std::ranges::none_of(ways, has_year)) ways.clear();
    return;
  }
  const auto misfit = [](const DateSequence& way) { return way.misfit() ? way.misfit()->line : SIZE_MAX; };
  std::ranges::stable_sort(ways, std::greater(), misfit);  // formats that fit all cells come first
  const auto fits = [](const DateSequence& way) { return !way.misfit(); };
  if (!fits(ways[0])) refuse(reader, ways[0], file);
  std::erase_if(ways, [&](const DateSequence& way) { return !fits(way); });
  if (std::ranges::none_of(ways, &DateSequence::is_regular)) refuse(reader, ways[0], file);
  std::erase_if(ways, [](const DateSequence& way) { return !way.is_regular(); });
  if (std::ranges::none_of(ways, has_year))
    reader.refuse(first_line_, candidates_[0].column, in_quotes(candidates_[0].first) + " has no year", k_write_dates);
}

void SeriesDates::choose_way(const CsvReader& reader, const std::string& file) {
  Candidate& candidate = candidates_[0];
  std::vector<DateSequence>& ways = candidate.ways;
  std::ranges::for_each(ways, &DateSequence::finish);
  keep_regular(reader, file);
  choose_century(ways);
  if (ways.empty()) return;
  if (std::ranges::all_of(ways, [&](const DateSequence& way) { return way.same_as(ways[0]); })) {
    ways.resize(1, ways[0]);
    return;
  }
  const std::string column = "column '" + reader.column_name(candidate.column) + "'",
                    what = "can be " + ways[0].format().text() + " or " + ways[1].format().text() + " (" +
                           in_quotes(candidate.first) + ")";
  if (named_) throw Error(ErrorKind::usage, file, column + " " + what, k_write_dates);
  warnings_.push_back(column + " " + what +
                      " and is not read: rows count as one step apart, and their order and gaps are not checked. " +
                      k_write_dates);
  unread_.forget(candidate.column);
  ways.clear();
}

void SeriesDates::refuse(const CsvReader& reader, const DateSequence& dates, const std::string& file) const {
  if (!dates.misfit() && !dates.disorder())
    throw Error(ErrorKind::input_file, file,
                "most dates are missing from " + dates.text(dates.first()) + " to " + dates.text(dates.last()) + ": " +
                    std::to_string(dates.size()) + " rows, with a usual distance of " + step_text(dates.step()),
                "Choose another date column with data.date, or set data.date = \"none\" to ignore dates");
  DateFault fault = dates.misfit() ? *dates.misfit() : *dates.disorder();
  if (!dates.misfit() && dates.has_repeats())
    fault.next = remedy_of_repeats(reader, fault.line, dates.format().has_time());
  reader.refuse(fault.line, candidates_[0].column, fault.what, fault.next);
}

std::string SeriesDates::remedy_of_repeats(const CsvReader& reader, std::size_t line, bool has_time) const {
  const std::string name = reader.column_name(candidates_[0].column);
  if (const std::string key = unread_.key_at(reader, line); !key.empty())
    return "The rows of several series, named in '" + key + "', share their dates. Set data.id = \"" + key + "\"";
  if (const std::string part = unread_.part_of_dates(reader, line); !part.empty() && part != name)
    return "Dates are spread over '" + name + "' and '" + part + "'. Join them in one column, such as 2024-01-31 13:00";
  const std::string number = unread_.number_at(reader, line);
  return "Keep one row per date. If the file has several series one below the other, set data.id to the column that "
         "names them" + (number.empty() ? "" : ", perhaps '" + number + "'") +
         (has_time && !zone_ ? ". If the clock is put back there, set data.timezone, such as \"Europe/Berlin\", or "
                               "write times in UTC"
                             : "");
}

std::int64_t SeriesDates::number(const CsvReader& reader, std::span<const std::string> cells, const Line& line,
                                 std::int64_t least) const {
  const std::string& cell = cells[column()];
  const std::optional<DateReading> date = read_date(cell, format());
  const std::optional<Timestamp> before = dates().is_in_utc() ? std::optional(at(least - 1)) : std::nullopt;
  const std::optional<Timestamp> moment = date ? dates().moment(*date, before, step().micros) : std::nullopt;
  const std::optional<std::int64_t> steps = moment ? steps_between(first(), *moment, step()) : std::nullopt;
  if (!steps || *steps < 0)
    reader.refuse(line.number, column(),
                  in_quotes(cell) + " does not fit a step of " + step_text(step()) + " from " + dates().text(first()),
                  k_no_dates);
  return *steps;
}

std::vector<std::string> SeriesDates::notes() const {
  if (!exist()) return {};
  std::vector<std::string> all;
  const std::string calendar = calendar_text(step());
  if (!calendar.empty())
    all.push_back(step().months > 0 ? "the dates are the last business days of their months"
                                    : "all rows fall on " + calendar + ": steps and forecasts skip other times");
  if (const std::int64_t n = dates().n_single(); n > 0)
    all.push_back(counted(n, "time") + " that the clock of " + zone_->name() + " shows twice " +
                  (n == 1 ? "has one row, line " : "have one row, the first of them in line ") +
                  std::to_string(dates().single_line()) + ": read as the earlier showing, in summer time");
  return all;
}

std::string SeriesDates::advice_on_gap(std::int64_t from, std::int64_t to) const {
  constexpr std::int64_t k_hour = 3600 * k_second, k_sunday = 6, k_latest = 3 * k_hour;
  if (zone_ || !format().has_time() || !format().zone.empty()) return "";
  const Timestamp begin = at(from);
  const auto month = static_cast<unsigned>(calendar_day(begin).month());
  const bool is_spring = month == 3 || month == 4 || month == 9 || month == 10;  // of one of the hemispheres
  if (!is_spring || weekday_of(begin) != k_sunday || time_of_day(begin) > k_latest ||
      at(to).micros - begin.micros != k_hour)
    return "";
  return "if the clock is put forward there, set data.timezone, such as \"Europe/Berlin\"";
}

}  // namespace unroll
