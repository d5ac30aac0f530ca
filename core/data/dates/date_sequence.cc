// SPDX-License-Identifier: Apache-2.0
#include "core/data/dates/date_sequence.h"

#include <algorithm>

#include "core/data/dates/date_patterns.h"
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

std::vector<Timestamp> DateSequence::moments(const DateReading& date) const {
  if (!zone_) return {date.at};
  if (!date.offset) return in_utc_ ? zone_->moments_of(date.at) : std::vector{date.at};
  const Timestamp utc{date.at.micros - *date.offset};
  return {in_utc_ ? utc : zone_->on_clock(utc)};
}

std::optional<Timestamp> DateSequence::moment(const DateReading& date, std::optional<Timestamp> before,
                                              std::int64_t step) const {
  const std::vector<Timestamp> all = moments(date);
  if (all.empty()) return std::nullopt;
  const auto is_after = [&](Timestamp at) { return before && at > *before; };
  const auto fits = [&](Timestamp at) { return is_after(at) && step > 0 && (at.micros - before->micros) % step == 0; };
  auto at = std::ranges::find_if(all, fits);
  if (at == all.end()) at = std::ranges::find_if(all, is_after);
  if (at == all.end()) return before ? all.back() : all[0];
  return *at;
}

std::string DateSequence::text(Timestamp at) const {
  const bool is_unix = unix_form(format_.pattern) != nullptr, has_offset = !format_.zone.empty();
  if (!zone_ || (!in_utc_ && !is_unix && !has_offset)) return date_text(at, format_);
  const Timestamp utc = in_utc_ ? at : zone_->moment_of(at);
  if (is_unix) return date_text(utc, format_);
  constexpr std::int64_t k_minute = 60 * k_second;  // the unit of a written offset
  const std::int64_t offset = zone_->offset_at(utc), shown = has_offset ? offset / k_minute * k_minute : offset;
  DateFormat format = format_;
  if (has_offset) format.zone = offset_text(shown, format_.zone);
  return date_text({utc.micros + shown}, format);
}

void DateSequence::see(std::string_view cell, std::size_t line) {
  if (misfit_) return;
  const std::optional<DateReading> date = read_date(cell, format_);
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
  if (!zone_ && date->format.has_time() && format_.has_time() && date->format.zone != format_.zone) {
    misfit_ = {line, shown + " has another UTC offset than the first date, as after a change of the clock",
               "Set data.timezone to the zone of the dates, such as \"Europe/Berlin\", write all of them with the same "
               "UTC offset, or set data.date = \"none\" to ignore dates"};
    return;
  }
  const std::vector<Timestamp> all = moments(*date);
  if (all.empty()) {
    misfit_ = {line, shown + " does not exist in " + zone_->name() + ", whose clock is put forward there",
               "Correct it or data.timezone. Leave data.timezone out if the clock of the dates is never changed"};
    return;
  }
  see_backward(all);
  const std::optional<Timestamp> before = begins_ ? std::nullopt : std::optional(spans_.back().last);
  const Timestamp at = all.size() == 1 ? all[0] : *moment(*date, before, usual(micros_).first);
  if (all.size() > 1 && at != all[0]) first_ones_.erase(date->at.micros);
  else if (all.size() > 1 && first_ones_.size() < k_most) first_ones_.emplace(date->at.micros, line);
  format_.add(date->format);
  const bool is_new_day = begins_ || calendar_day(at) != calendar_day(spans_.back().last);
  if (begins_)
    spans_.push_back({at, at});
  else
    compare(at, cell, line);
  begins_ = false;
  if (seen_.size() < k_most) seen_.insert(at.micros);
  day_of_month_.see(at);
  days_[weekday_of(at)] += is_new_day;
  if (times_.size() <= k_most) times_.insert(time_of_day(at));
  spans_.back().last = at;
  last_line_ = line;
  ++n_;
}

// Follows the dates as if the newest rows came first: there the second showing of a time precedes the first one.
void DateSequence::see_backward(std::span<const Timestamp> moments) {
  const auto older = std::ranges::find_if(moments.rbegin(), moments.rend(),
                                          [&](Timestamp at) { return begins_ || at < newer_; });
  n_not_older_ += older == moments.rend();
  newer_ = older == moments.rend() ? moments[0] : *older;
}

void DateSequence::end_series() {
  for (const auto& [time, line] : first_ones_)
    if (n_single_++ == 0 || line < single_line_) single_line_ = line;
  first_ones_.clear();
}

void DateSequence::begin_series() {
  end_series();
  begins_ = true;
  if (!disorder_) seen_.clear();
}

void DateSequence::compare(Timestamp at, std::string_view cell, std::size_t line) {
  const Timestamp before = spans_.back().last;
  const std::int64_t apart = at.micros - before.micros;
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

// True if all neighbors are a whole number of these steps apart.
bool DateSequence::divides(DateStep step) const {
  if (micros_.empty() || micros_.size() >= k_most) return false;
  if (step.months == 0)
    return std::ranges::all_of(micros_, [&](const auto& apart) { return apart.first % step.micros == 0; });
  std::int64_t n = 0, n_months = 0;
  for (const auto& [apart, of_distance] : micros_) n += of_distance;
  for (const auto& [apart, of_distance] : months_) n_months += apart % step.months == 0 ? of_distance : 0;
  return n == n_months;
}

// Finds the days of the week, and the times of day outside the first and the last one, that have no row. A day of the
// week counts as absent after four weeks, if the other days have rows in most weeks.
void DateSequence::find_calendar() {
  constexpr std::int64_t k_week = 7 * k_day;
  DateStep step = step_;
  if (step.micros > k_day && step.micros < k_week && step.micros % k_day == 0 && !divides(step)) step.micros = k_day;
  const bool is_round = step.months == 0 && step.micros % k_second == 0 && k_day % step.micros == 0;
  if (!is_round || times_.empty() || times_.size() > k_most || in_utc_) return;
  const std::int64_t first = *times_.begin(), last = *times_.rbegin(), per_day = k_day / step.micros;
  const auto is_slot = [&](std::int64_t time) { return (time - first) % step.micros == 0; };
  if (first % k_second != 0 || !std::ranges::all_of(times_, is_slot)) return;
  std::int64_t n_days = 0, all = 0, longest = 0;
  for (const std::int64_t n : days_) n_days += n;
  for (const Span& span : spans_) {
    all += span.last.micros - span.first.micros;
    longest = std::max(longest, span.last.micros - span.first.micros);
  }
  unsigned weekdays = 0;
  bool often = longest >= 4 * k_week;
  for (std::size_t d = 0; d < days_.size(); ++d) {
    if (days_[d] > 0) weekdays |= 1U << d;
    often = often && (days_[d] == 0 || 2 * days_[d] >= all / k_week);
  }
  step.weekdays = often ? weekdays : DateStep::k_all_days;
  step.slots = (last - first) / step.micros + 1;
  step.open = first;
  constexpr std::int64_t k_least_days = 5;
  if (n_days < k_least_days || 2 * n_ < n_days * step.slots) {
    step.open = first % step.micros;
    step.slots = per_day;
  }
  if (step.weekdays != DateStep::k_all_days || step.slots < per_day) step_ = step;
}

void DateSequence::finish() {
  end_series();
  const auto [micros, n_micros] = usual(micros_);
  const auto [months, n_months] = usual(months_);
  if (n_months > 0 && n_months >= n_micros) {
    step_ = {0, months};
    day_of_month_.put(step_);
  } else if (n_micros > 0) {
    step_ = {micros, 0};
  }
  is_even_ = divides(step_);
  if (calendar_.empty()) find_calendar();
  else put_calendar(step_, calendar_);
  micros_.clear();
  months_.clear();
  seen_.clear();
  if (spans_.empty()) return;
  first_ = spans_[0].first;
  last_ = spans_[0].last;
  std::int64_t n_steps = 0;  // approximate if the dates are irregular; the numbering of rows refuses such dates later
  const std::int64_t size = step_.months > 0 ? step_.months * 30 * k_day : step_.micros;
  for (const Span& span : spans_) {
    first_ = std::min(first_, span.first);
    last_ = std::max(last_, span.last);
    const std::int64_t about = (span.last.micros - span.first.micros) / size;
    n_steps += steps_between(span.first, span.last, step_).value_or(about);
  }
  is_even_ = is_even_ || step_.slots > 0;
  n_missing_ = std::max<std::int64_t>(n_steps + std::ssize(spans_) - n_, 0);
  is_sparse_ = 2 * n_steps > 5 * n_ + 20;
}

}  // namespace unroll
