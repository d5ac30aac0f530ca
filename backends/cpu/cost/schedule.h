// SPDX-License-Identifier: Apache-2.0
// How the steps of a scan, and of scans that do not depend on each other, are shared out among the parts of a pool. All
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
  rows,     // each part its own rows for all steps, no barrier
  one,      // all by one part
  side_by_side,  // independent scans at once, each by some of the parts (fork.cc); the others by calls
};
std::vector<std::string> schedule_names();
std::string_view schedule_name(Schedule schedule);
// "": nothing. Throws Error(usage) naming the known ones.
std::optional<Schedule> find_schedule(std::string_view name);

// Which of several ways to do the same is the fastest: runs of each are timed, in turn. At first the least time of
// three runs counts, because nothing is warm yet. A choice that is made again is made because other programs disturb,
// so that the mean counts, of more runs where they are short; the first run of each way is a warm-up.
// Of long runs two are enough, and in a choice that is made again one of a way that is clearly slower.
class TimedChoice {
 public:
  explicit TimedChoice(std::size_t n_ways = 1, bool again = false) : ways_(n_ways), again_(again) {}
  bool open() const { return open_ && ways_.size() > 1; }
  std::size_t active() const { return active_; }  // what the next run takes
  // A run of the active way is done; its time is passed over where it does not count. True when the choice is made.
  bool add_run(double milliseconds, bool counts);
  double ms(std::size_t way) const;  // that counts; 0: not timed
  std::size_t n_ways() const { return ways_.size(); }

 private:
  struct Way {
    double least_ms = 0, sum_ms = 0;
    int timed = 0;
    bool warm = false;
  };
  bool has_lost(std::size_t way) const;
  bool is_done(std::size_t way) const;
  bool next_way();
  std::vector<Way> ways_;
  bool again_;
  std::size_t active_ = 0;
  bool open_ = true;
};

// When a choice may be made again: each limit is at least `..._ms`, and a multiple of what trying cost, so that trying
// costs a fraction of what it may save.
struct RetryLimits {
  double lost = 4, lost_ms = 20;  // runs took so much more than expected, in all
  double soon = 20, soon_ms = 100;  // so long after a choice, when runs take less time than expected
  double late = 200, late_ms = 2000;  // so long after a choice, in any case
  double window_ms = 8;  // runs that are compared with the expected time, together
};

// Says when to make a choice again: soon when runs take much more or much less time than expected, because other
// programs came or went, otherwise from time to time.
class ChoiceWatch {
 public:
  // A choice was made: a run takes `expected_ms` (0: as long as the first runs do), trying took `cost_ms`.
  void restart(double expected_ms, double cost_ms);
  // After each run. True: try again.
  bool add_run(double milliseconds, const RetryLimits& limits);
  bool as_expected() const { return as_expected_; }  // the last runs

 private:
  double expected_ms_ = 0, cost_ms_ = 0;
  double elapsed_ms_ = 0, lost_ms_ = 0;  // of runs since the choice
  bool as_expected_ = true;
  double window_ms_ = 0;               // of the last runs
  int window_ = 0;
};

// A choice that is made again when times change. Between choices only the chosen way has to exist.
class RepeatedChoice {
 public:
  enum class Next : std::uint8_t {
    go_on,
    drop_others,  // the choice is made
    make_others,  // it is to be made again: prepare the ways, then call begin_again
  };
  explicit RepeatedChoice(std::size_t n_ways = 1) : choice_(n_ways) {}
  bool open() const { return choice_.open(); }
  std::size_t active() const { return choice_.active(); }  // what the next run takes
  bool as_expected() const { return watch_.as_expected(); }  // the last runs took about as long as when it was made
  double ms(std::size_t way) const { return choice_.ms(way); }
  std::size_t n_ways() const { return choice_.n_ways(); }
  // After a run of the active way; its time is passed over where it does not count.
  Next add_run(double milliseconds, bool counts, const RetryLimits& limits);
  // Ways [0, n_ways) exist, the active one first; making them took `cost_ms`.
  void begin_again(std::size_t n_ways, double cost_ms);
  // A run takes so long from now on (0: as long as the next ones do): another time is a reason to choose again.
  void expect(double milliseconds) { watch_.restart(milliseconds, tried_ms_); }

 private:
  TimedChoice choice_;
  ChoiceWatch watch_;
  double tried_ms_ = 0;  // what the choice has cost
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
