// SPDX-License-Identifier: Apache-2.0
// How the steps of a scan, and of scans that do not depend on each other, are shared out among the parts of a team. All
// ways give the same bits, so a timing may choose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unroll::cpu {

enum class Schedule : std::uint8_t {
  calls,    // each call of a step by all parts, a barrier after each
  columns,  // each part its own columns of all calls, barriers where columns meet (columns.h)
  rows,     // each part its own rows for all steps, no barrier (rows.h)
  one,      // all by one part
  side_by_side,  // independent scans at once, each by some of the parts (fork.cc); the others by calls
};
std::vector<std::string> schedule_names();
std::string_view schedule_name(Schedule schedule);
// "": nothing. Throws Error(usage) naming the known ones.
std::optional<Schedule> find_schedule(std::string_view name);

// Which of several ways to do the same is the soonest done: three runs of each are timed, in turn, and the least time
// of a way counts.
class TimedChoice {
 public:
  explicit TimedChoice(std::size_t n_ways = 1) : ways_(n_ways) {}
  bool open() const { return open_ && ways_.size() > 1; }
  std::size_t active() const { return active_; }  // what the next run takes
  // A run of the active way is done; its time is passed over where it does not count. True when the choice is made.
  bool add_run(double milliseconds, bool counts);
  double least_ms(std::size_t way) const { return ways_[way].least_ms; }  // 0: not timed yet

 private:
  struct Way {
    double least_ms = 0;
    int timed = 0;
  };
  std::vector<Way> ways_;
  std::size_t active_ = 0;
  bool open_ = true;
};

// What timings chose, by a text that says everything that matters.
class ScheduleChoices {
 public:
  std::optional<Schedule> find(const std::string& key) const;
  void keep(const std::string& key, Schedule schedule);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Schedule> chosen_;
};

}  // namespace unroll::cpu
