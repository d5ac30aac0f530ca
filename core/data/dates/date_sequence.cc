// SPDX-License-Identifier: Apache-2.0
#include "core/data/dates/date_sequence.h"

#include <algorithm>

#include "core/support/text/in_quotes.h"

namespace unroll {

namespace {

constexpr std::size_t k_most = 4096;  // maximum number of stored distances and dates

// Returns the most frequent distance, the smaller one of equals, and its count.
std::pair<std::int64_t, std::int64_t> usual(const std::map<std::int64_t, std::int64_t>& counts) {
  std::pair<std::int64_t, std::int64_t> best{0, 0};
  for (const auto& [apart, n] : counts)
    if (n > best.second) best = {apart, n};
  return best;
}

void count(std::map<std::int64_t, std::int64_t>& counts, std::int64_t apart) {
  if (counts.size() < k_most || counts.contains(apart)) ++counts[apart];
}

}  // namespace

void DateSequence::see(std::string_view cell, std::size_t line) {
  if (misfit_) return;
  const std::optional<DateReading> date = read_date(cell, format_.pattern);
  const std::string shown = in_quotes(cell);
  if (!date) {
    const bool is_other = !date_readings(cell, DateNumbers::yes).empty();
    misfit_ = {line,
               cell.empty() ? "the date is missing"
               : is_other       ? shown + " is in another date format than the first date"
                                : shown + " is not a date",
               k_no_dates};
    return;
  }
  if (n_ == 0) format_.zone = date->format.zone;
  if (date->format.has_time && format_.has_time && date->format.zone != format_.zone) {
    misfit_ = {line, shown + " has another UTC offset than the first date",
               "Write all dates with the same UTC offset, or set data.date = \"none\" to ignore dates"};
    return;
  }
  format_.add(date->format);
  if (begins_)
    spans_.push_back({date->at, date->at});
  else
    compare(date->at, cell, line);
  begins_ = false;
  if (seen_.size() < k_most) seen_.insert(date->at.micros);
  day_of_month_.see(date->at);
  ++weekdays_[std::chrono::weekday(std::chrono::sys_days(calendar_day(date->at))).c_encoding()];
  spans_.back().last = date->at;
  last_line_ = line;
  ++n_;
}

void DateSequence::begin_series() {
  begins_ = true;
  if (!disorder_) seen_.clear();
}

void DateSequence::compare(Timestamp at, std::string_view cell, std::size_t line) {
  const Timestamp before = spans_.back().last;
  const std::int64_t apart = at.micros - before.micros;
  n_above_ += apart > 0;
  n_equal_ += apart == 0;
  if (apart <= 0 && !disorder_)
    disorder_ = {line,
                 in_quotes(cell) + (apart == 0 ? " repeats the date of line " : " is before the date of line ") +
                     std::to_string(last_line_),
                 "Sort the rows by date, the oldest first"};
  if (disorder_) {
    n_again_ += seen_.contains(at.micros);
    return;
  }
  count(micros_, apart);
  if (const std::int64_t months = months_apart(before, at); months > 0) count(months_, months);
}

void DateSequence::finish() {
  const auto [micros, n_micros] = usual(micros_);
  const auto [months, n_months] = usual(months_);
  if (n_months > 0 && n_months >= n_micros)
    step_ = {0, months, day_of_month_.day()};
  else if (n_micros > 0)
    step_ = {micros, 0};
  micros_.clear();
  months_.clear();
  seen_.clear();
  if (spans_.empty()) return;
  first_ = spans_[0].first;
  last_ = spans_[0].last;
  n_missing_ = -n_;
  for (const Span& span : spans_) {
    first_ = std::min(first_, span.first);
    last_ = std::max(last_, span.last);
    n_missing_ += steps_between(span.first, span.last, step_).value_or(-1) + 1;
  }
  n_missing_ = std::max<std::int64_t>(n_missing_, 0);
}

// Approximate if a step has months and the dates are irregular; the numbering of rows refuses such dates later.
bool DateSequence::is_sparse() const {
  const double month = 30.4 * static_cast<double>(k_day);
  const double step = step_.months > 0 ? month * static_cast<double>(step_.months) : static_cast<double>(step_.micros);
  double all = 0;
  for (const Span& span : spans_) all += static_cast<double>(span.last.micros - span.first.micros) / step;
  return all > 2.5 * static_cast<double>(n_) + 10;
}

std::string DateSequence::absent_weekdays() const {
  constexpr std::string_view k_days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
  constexpr std::size_t k_from = 6;  // starts the week at Saturday, so a weekend stays together
  if (step_ != DateStep{k_day, 0} || n_missing_ == 0 || last_.micros - first_.micros < 14 * k_day) return "";
  std::string days;
  for (std::size_t i = 0; i < 7; ++i)
    if (weekdays_[(k_from + i) % 7] == 0) days += (days.empty() ? "" : " or ") + std::string(k_days[(k_from + i) % 7]);
  return days;
}

}  // namespace unroll
