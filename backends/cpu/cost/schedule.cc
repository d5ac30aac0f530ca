// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/cost/schedule.h"

#include <algorithm>
#include <utility>

#include "core/support/text/nearest_name.h"
#include "unroll/support/error.h"

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

// A losing candidate is finished after fewer runs, because each further run of a slow one costs time. The limit allows
// for time slices that other programs took.
bool TimedChoice::has_lost(std::size_t way) const {
  constexpr double k_clearly = 1.25, k_slice_ms = 8;  // a few time slices of the operating system
  const int fewest = again_ ? 1 : 2;  // in the first choice a single run may be slow by chance
  if (ways_[way].timed < fewest) return false;
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (ways_[i].timed > 0 && ways_[way].least_ms > k_clearly * ms(i) + k_slice_ms / ways_[way].timed) return true;
  return false;
}

bool TimedChoice::is_done(std::size_t way) const {
  constexpr int k_long_runs = 2, k_runs = 3, k_most_runs = 32;
  constexpr double k_enough_ms = 8, k_long_ms = 40;  // all runs together
  const Way& w = ways_[way];
  if (has_lost(way) || (w.timed >= k_long_runs && w.sum_ms >= k_long_ms)) return true;
  if (!again_) return w.timed >= k_runs;
  return w.timed >= k_most_runs || (w.timed >= k_runs && w.sum_ms >= k_enough_ms);
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
  if (next_way()) return false;
  active_ = 0;
  for (std::size_t i = 1; i < ways_.size(); ++i)
    if (ms(i) < ms(active_)) active_ = i;
  open_ = false;
  return true;
}

// Activates the first unfinished candidate with the fewest runs. Returns false if at most one candidate is left.
bool TimedChoice::next_way() {
  std::size_t left = 0, next = ways_.size();
  bool done = true;
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    if (!has_lost(i)) ++left;
    if (is_done(i)) continue;
    if (done || ways_[i].timed < ways_[next].timed) next = i;
    done = false;
  }
  if (done || left == 1) return false;
  active_ = next;
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
