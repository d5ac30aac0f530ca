// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule.h"

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
  throw Error(ErrorKind::usage, "cpu", "there is no schedule '" + std::string(name) + "'", known_names(name, known));
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
