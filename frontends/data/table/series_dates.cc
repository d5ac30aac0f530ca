// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/table/series_dates.h"

#include <algorithm>

#include "core/support/text/in_quotes.h"
#include "unroll/error.h"

namespace unroll {

namespace {

constexpr const char* k_no_dates = "Correct it, or set data.date = \"none\" to ignore dates";

// The most frequent distance, the smaller one of equals, and how often.
std::pair<std::int64_t, std::int64_t> usual(const std::map<std::int64_t, std::int64_t>& counts) {
  std::pair<std::int64_t, std::int64_t> best{0, 0};
  for (const auto& [apart, n] : counts)
    if (n > best.second) best = {apart, n};
  return best;
}

// Of two dates on the same day of the month, or both on the last one; 0 for others.
std::int64_t months_apart(Moment from, Moment to) { return steps_between(from, to, {0, 1}).value_or(0); }

}  // namespace

SeriesDates::SeriesDates(const CsvReader& reader, const std::string& name, std::span<const std::size_t> values,
                         std::span<const std::string> cells) {
  if (name == "none") return;
  if (!name.empty()) column_ = reader.column(name);
  for (std::size_t c = 0; !column_ && c < cells.size(); ++c) {
    if (std::find(values.begin(), values.end(), c) != values.end()) continue;
    const std::optional<DateCell> date = date_in(cells[c]);
    const bool looks_like_number = date && (date->form == DateForm::year || date->form == DateForm::compact);
    if (date && (!looks_like_number || is_date_name(reader.column_name(c)))) column_ = c;
  }
  if (!column_) look_for_unread(reader, cells);
}

void SeriesDates::look_for_unread(const CsvReader& reader, std::span<const std::string> cells) {
  for (std::size_t c = 0; c < cells.size(); ++c)
    if (is_date_name(reader.column_name(c)) && !date_in(cells[c]))
      warnings_.push_back("column '" + reader.column_name(c) + "' begins with " + in_quotes(cells[c]) +
                          ", which is not read as a date: the rows count as one step apart, in the order of the file. "
                          "Write dates such as 2024-01-31, or set data.date = \"none\" if it has none");
}

void SeriesDates::see(const CsvReader& reader, std::span<const std::string> cells, std::size_t line) {
  const std::string& cell = cells[*column_];
  const std::optional<DateCell> date = date_in(cell);
  const std::string shown = in_quotes(cell);
  if (!date) reader.refuse(line, *column_, shown + " is not a date", k_no_dates);
  if (n_ == 0) {
    form_ = date->form;
    first_ = date->at;
  } else {
    if (date->form != form_)
      reader.refuse(line, *column_, shown + " is in another date format than the first date", k_no_dates);
    if (date->at <= last_)
      reader.refuse(line, *column_,
                    shown + (date->at == last_ ? " repeats the date of line " : " is before the date of line ") +
                        std::to_string(last_line_),
                    date->at == last_ ? "Keep one row per date. Give each series its own column"
                                      : "Sort the rows by date");
    constexpr std::size_t k_most = 4096;  // distances that are told apart
    const std::int64_t seconds = date->at.seconds - last_.seconds, months = months_apart(last_, date->at);
    if (seconds_.size() < k_most || seconds_.contains(seconds)) ++seconds_[seconds];
    if (months > 0 && (months_.size() < k_most || months_.contains(months))) ++months_[months];
  }
  has_time_ = has_time_ || date->has_time;
  last_ = date->at;
  last_line_ = line;
  ++n_;
}

void SeriesDates::finish(const std::string& file) {
  const auto [seconds, n_seconds] = usual(seconds_);
  const auto [months, n_months] = usual(months_);
  if (n_months > 0 && n_months >= n_seconds) step_ = {0, months};
  else if (n_seconds > 0) step_ = {seconds, 0};
  seconds_.clear();
  months_.clear();
  // Not exact where a step has months and the dates are irregular, which number() refuses.
  const double all = step_.months > 0 ? static_cast<double>(last_.seconds - first_.seconds) / (30.4 * 86400.0) /
                                            static_cast<double>(step_.months)
                                      : static_cast<double>(last_.seconds - first_.seconds) /
                                            static_cast<double>(step_.seconds);
  if (all > 2.5 * static_cast<double>(n_) + 10)
    throw Error(ErrorKind::input_file, file,
                "most dates are missing from " + date_text(first_, form_, has_time_) + " to " +
                    date_text(last_, form_, has_time_) + ": " + std::to_string(n_) +
                    " rows, with a usual distance of " + step_text(step_),
                "Choose another date column with data.date, or set data.date = \"none\" to ignore dates");
  if (const std::optional<std::int64_t> steps = steps_between(first_, last_, step_)) n_missing_ = *steps + 1 - n_;
}

std::int64_t SeriesDates::number(const CsvReader& reader, const std::string& cell, std::size_t line) const {
  const std::optional<DateCell> date = date_in(cell);
  const std::optional<std::int64_t> steps = date ? steps_between(first_, date->at, step_) : std::nullopt;
  if (!steps || *steps < 0)
    reader.refuse(line, *column_,
                  in_quotes(cell) + " does not fit a step of " + step_text(step_) + " from " +
                      date_text(first_, form_, has_time_),
                  k_no_dates);
  return *steps;
}

}  // namespace unroll
