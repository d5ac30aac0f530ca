// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule.h"

#include <algorithm>

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

bool TimedChoice::add_run(double milliseconds, bool counts) {
  constexpr int k_runs = 3;  // of each way
  Way& way = ways_[active_];
  if (counts) {
    way.least_ms = way.timed == 0 ? milliseconds : std::min(way.least_ms, milliseconds);
    ++way.timed;
  }
  const auto at = [&](auto found) { return static_cast<std::size_t>(found - ways_.begin()); };
  const auto next =
      std::min_element(ways_.begin(), ways_.end(), [](const Way& a, const Way& b) { return a.timed < b.timed; });
  active_ = at(next);
  if (next->timed < k_runs) return false;
  active_ = at(std::min_element(ways_.begin(), ways_.end(),
                                [](const Way& a, const Way& b) { return a.least_ms < b.least_ms; }));
  open_ = false;
  return true;
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
