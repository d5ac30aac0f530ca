// SPDX-License-Identifier: Apache-2.0
#include "core/data/series/series_dates.h"

#include <algorithm>

#include "core/data/dates/date_words.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr const char* k_write_dates =
    "Write dates such as 2024-01-31, with four digits for the year, or set data.date = \"none\" to ignore dates";

}  // namespace

SeriesDates::SeriesDates(const CsvReader& reader, DateColumn column, std::span<const std::size_t> values,
                         std::optional<std::size_t> id)
    : column_(std::move(column)), none_(column_.name == "none"), has_ids_(id.has_value()) {
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

void SeriesDates::decide(const CsvReader& reader, std::size_t column, const std::string& cell, std::size_t line) {
  const bool numbers = named_ || (!reader.header().empty() && is_date_name(reader.column_name(column)));
  std::vector<DateReading> readings;
  if (!none_ && named_.value_or(column) == column)
    readings = date_readings(cell, numbers ? DateNumbers::yes : DateNumbers::no);
  const auto is_trained = [&](const DateReading& r) { return r.format.name() == column_.form; };
  if (std::ranges::any_of(readings, is_trained))
    std::erase_if(readings, [&](const DateReading& r) { return !is_trained(r); });
  if (readings.empty() && named_ == column)
    reader.refuse(line, column, in_quotes(cell) + " is not a date", k_write_dates);
  if (readings.empty()) return unread_.add(reader, column, cell);
  Candidate candidate{column, cell, number_in(cell).has_value(), {}};
  for (const DateReading& r : readings) {
    candidate.ways.emplace_back(r.format);
    if (line > first_line_) candidate.ways.back().see("", first_line_);
  }
  candidates_.push_back(std::move(candidate));
}

bool SeriesDates::are_newest_first() const {
  if (candidates_.empty()) return false;
  const std::vector<DateSequence>& ways = std::ranges::min_element(candidates_, {}, rank)->ways;
  const auto is_in_order = [](const DateSequence& way) { return !way.misfit() && !way.disorder(); };
  const auto is_reversed = [](const DateSequence& way) {
    return !way.misfit() && way.disorder() && way.is_newest_first();
  };
  return std::ranges::none_of(ways, is_in_order) && std::ranges::any_of(ways, is_reversed);
}

void SeriesDates::finish(const CsvReader& reader, const std::string& file) {
  undecided_.clear();
  std::ranges::sort(candidates_, {}, rank);
  if (!candidates_.empty()) choose_way(reader, file);
  if (candidates_.empty()) {
    if (!none_) std::ranges::move(unread_.date_warnings(reader), std::back_inserter(warnings_));
    if (!has_ids_) std::ranges::move(unread_.series_warnings(reader), std::back_inserter(warnings_));
    return;
  }
  const std::string name = "'" + reader.column_name(column()) + "'";
  if (const std::string days = dates().absent_weekdays(); !days.empty())
    warnings_.push_back("no row of " + name + " falls on a " + days +
                        ": these days are added as rows of missing values, and are forecast. Set data.date = \"none\" "
                        "for steps from row to row");
  for (std::size_t c = 1; c < candidates_.size(); ++c)
    if (!candidates_[c].is_number)
      warnings_.push_back("column '" + reader.column_name(candidates_[c].column) +
                          "' has dates too and is not used. Set data.date to it, or to " + name + " to confirm");
  candidates_.resize(1);
}

void SeriesDates::choose_way(const CsvReader& reader, const std::string& file) {
  std::vector<DateSequence>& ways = candidates_[0].ways;
  std::ranges::for_each(ways, &DateSequence::finish);
  const auto misfit = [](const DateSequence& way) { return way.misfit() ? way.misfit()->line : SIZE_MAX; };
  std::ranges::stable_sort(ways, std::greater(), misfit);  // formats that fit all cells come first
  const auto fits = [](const DateSequence& way) { return !way.misfit(); };
  if (!fits(ways[0])) refuse(reader, ways[0], file);
  std::erase_if(ways, [&](const DateSequence& way) { return !fits(way); });
  if (std::ranges::none_of(ways, &DateSequence::is_regular)) refuse(reader, ways[0], file);
  std::erase_if(ways, [](const DateSequence& way) { return !way.is_regular(); });
  if (std::ranges::all_of(ways, [&](const DateSequence& way) { return way.same_as(ways[0]); })) {
    ways.resize(1, ways[0]);
    return;
  }
  const std::string column = "column '" + reader.column_name(candidates_[0].column) + "'",
                    what = "can be " + ways[0].format().text() + " or " + ways[1].format().text() + " (" +
                           in_quotes(candidates_[0].first) + ")";
  if (named_) throw Error(ErrorKind::usage, file, column + " " + what, k_write_dates);
  warnings_.push_back(column + " " + what +
                      " and is not read: rows count as one step apart, and their order and gaps are not checked. Write "
                      "dates such as 2024-01-31, or set data.date = \"none\" to confirm");
  candidates_.clear();
}

void SeriesDates::refuse(const CsvReader& reader, const DateSequence& dates, const std::string& file) const {
  if (!dates.misfit() && !dates.disorder())
    throw Error(ErrorKind::input_file, file,
                "most dates are missing from " + dates.text(dates.first()) + " to " + dates.text(dates.last()) + ": " +
                    std::to_string(dates.size()) + " rows, with a usual distance of " + step_text(dates.step()),
                "Choose another date column with data.date, or set data.date = \"none\" to ignore dates");
  DateFault fault = dates.misfit() ? *dates.misfit() : *dates.disorder();
  if (!dates.misfit() && dates.has_repeats())
    fault.next = remedy_of_repeats(reader, fault.line, dates.format().has_time);
  reader.refuse(fault.line, candidates_[0].column, fault.what, fault.next);
}

std::string SeriesDates::remedy_of_repeats(const CsvReader& reader, std::size_t line, bool has_time) const {
  const std::string name = reader.column_name(candidates_[0].column);
  if (const std::string key = unread_.key_at(reader, line); !key.empty())
    return "The rows of several series, named in '" + key + "', share their dates. Set data.id = \"" + key + "\"";
  if (const std::string part = unread_.part_of_dates(reader, line); !part.empty())
    return "Dates are spread over '" + name + "' and '" + part + "'. Join them in one column, such as 2024-01-31 13:00";
  const std::string number = unread_.number_at(reader, line);
  return "Keep one row per date. If the file has several series one below the other, set data.id to the column that "
         "names them" + (number.empty() ? "" : ", perhaps '" + number + "'") +
         (has_time ? ". Where clocks go back an hour, write times in UTC" : "");
}

std::int64_t SeriesDates::number(const CsvReader& reader, const std::string& cell, std::size_t line) const {
  const std::optional<DateReading> date = read_date(cell, format().pattern);
  const std::optional<std::int64_t> steps = date ? steps_between(first(), date->at, step()) : std::nullopt;
  if (!steps || *steps < 0)
    reader.refuse(line, column(),
                  in_quotes(cell) + " does not fit a step of " + step_text(step()) + " from " + dates().text(first()),
                  k_no_dates);
  return *steps;
}

}  // namespace unroll
