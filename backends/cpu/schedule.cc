// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule.h"

#include <algorithm>
#include <utility>

#include "core/support/nearest_name.h"
#include "unroll/error.h"

namespace unroll::cpu {

namespace {

struct Row {
  Schedule schedule;
  std::string_view name;
};
constexpr Row k_schedules[] = {
    {Schedule::calls, "calls"},
    {Schedule::columns, "columns"},
    {Schedule::rows, "rows"},
    {Schedule::one, "one"},
    {Schedule::side_by_side, "side_by_side"},
};

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Row& row : k_schedules) names.emplace_back(row.name);
  return names;
}

std::string_view schedule_name(Schedule schedule) {
  for (const Row& row : k_schedules)
    if (row.schedule == schedule) return row.name;
  return {};
}

std::optional<Schedule> find_schedule(std::string_view name) {
  if (name.empty()) return {};
  std::vector<std::string_view> known;
  for (const Row& row : k_schedules) {
    if (row.name == name) return row.schedule;
    known.push_back(row.name);
  }
  throw Error(ErrorKind::usage, "cpu", "unknown schedule '" + std::string(name) + "'", known_names(name, known));
}

bool TimedChoice::is_done(const Way& way) const {
  constexpr int k_runs = 3, k_most_runs = 32;
  constexpr double k_enough_ms = 8;  // a few time slices of the operating system
  if (!again_) return way.timed >= k_runs;
  return way.timed >= k_most_runs || (way.timed >= k_runs && way.sum_ms >= k_enough_ms);
}

double TimedChoice::ms(std::size_t way) const {
  if (way >= ways_.size() || ways_[way].timed == 0) return 0;
  return again_ ? ways_[way].sum_ms / ways_[way].timed : ways_[way].least_ms;
}

bool TimedChoice::add_run(double milliseconds, bool counts) {
  Way& way = ways_[active_];
  if (counts && again_) counts = std::exchange(way.warm, true);
  if (counts) {
    way.least_ms = way.timed == 0 ? milliseconds : std::min(way.least_ms, milliseconds);
    way.sum_ms += milliseconds;
    ++way.timed;
  }
  bool done = true;
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    if (is_done(ways_[i])) continue;
    if (done || ways_[i].timed < ways_[active_].timed) active_ = i;
    done = false;
  }
  if (!done) return false;
  active_ = 0;
  for (std::size_t i = 1; i < ways_.size(); ++i)
    if (ms(i) < ms(active_)) active_ = i;
  open_ = false;
  return true;
}

void ChoiceWatch::restart(double expected_ms, double cost_ms) {
  *this = ChoiceWatch();
  expected_ms_ = expected_ms;
  cost_ms_ = cost_ms;
}

bool ChoiceWatch::add_run(double milliseconds, const RetryLimits& limits) {
  constexpr int k_window = 8;
  constexpr double k_changed = 1.5;
  elapsed_ms_ += milliseconds;
  window_ms_ += milliseconds;
  if (++window_ < k_window || window_ms_ < limits.window_ms) return false;
  const double mean = window_ms_ / window_;
  if (expected_ms_ == 0) expected_ms_ = mean;
  lost_ms_ += std::max(window_ms_ - expected_ms_ * window_, 0.0);
  window_ms_ = 0;
  window_ = 0;
  const bool slower = mean > k_changed * expected_ms_, faster = mean * k_changed < expected_ms_;
  as_expected_ = !slower && !faster;
  const auto beyond = [&](double ms, double least_ms, double factor) {
    return ms > std::max(least_ms, factor * cost_ms_);
  };
  return beyond(elapsed_ms_, limits.late_ms, limits.late) ||
         (slower && beyond(lost_ms_, limits.lost_ms, limits.lost)) ||
         (faster && beyond(elapsed_ms_, limits.soon_ms, limits.soon));
}

RepeatedChoice::Next RepeatedChoice::add_run(double milliseconds, bool counts, const RetryLimits& limits) {
  if (!choice_.open()) return watch_.add_run(milliseconds, limits) ? Next::make_others : Next::go_on;
  tried_ms_ += milliseconds;
  if (!choice_.add_run(milliseconds, counts)) return Next::go_on;
  watch_.restart(choice_.ms(choice_.active()), tried_ms_);
  return Next::drop_others;
}

void RepeatedChoice::begin_again(std::size_t n_ways, double cost_ms) {
  choice_ = TimedChoice(n_ways, /*again=*/true);
  tried_ms_ = cost_ms;
  if (!choice_.open()) watch_.restart(0, cost_ms);
}

std::optional<Schedule> ScheduleChoices::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto at = chosen_.find(key);
  if (at == chosen_.end()) return {};
  return at->second;
}

void ScheduleChoices::keep(const std::string& key, Schedule schedule) {
  const std::lock_guard lock(mutex_);
  chosen_[key] = schedule;
}

}  // namespace unroll::cpu
