// SPDX-License-Identifier: Apache-2.0
// Schedules that divide the steps of a scan, or of independent scans, among workers. All schedules give the same bits,
// so timing may choose.
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
  calls,    // all workers share each call of a step, with a barrier after each
  columns,  // each worker computes its columns in all calls; barriers between dependent columns (columns.h)
  rows,     // each worker computes its rows for all steps, no barrier
  one,      // one worker runs all steps
  side_by_side,  // independent scans run concurrently on some of the workers each (fork.cc); the others by calls
};
std::vector<std::string> schedule_names();
std::string_view schedule_name(Schedule schedule);
// Returns nullopt for "". Throws Error(usage), which lists the known names, for an unknown one.
std::optional<Schedule> find_schedule(std::string_view name);

// Chooses the fastest of several equivalent ways by timing runs of each in turn. The first choice compares the minimum
// of three runs, because caches are cold. When retuning, it compares mean times, because other processes interfere;
// short kernels get more runs, and the first run of each way is a warm-up. Two long runs are enough, and one for a
// clearly slower way when retuning.
class TimedChoice {
 public:
  explicit TimedChoice(std::size_t n_ways = 1, bool again = false) : ways_(n_ways), again_(again) {}
  bool open() const { return open_ && ways_.size() > 1; }
  std::size_t active() const { return active_; }  // way of the next run
  // Call after a run of the active way; its time is ignored unless `counts`. Returns true when the choice is made.
  bool add_run(double milliseconds, bool counts);
  double ms(std::size_t way) const;  // time that decides; 0: not timed
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

// Conditions for retuning: each limit is at least `..._ms`, and a multiple of the tuning cost, so that tuning costs a
// fraction of its possible gain.
struct RetryLimits {
  double lost = 4, lost_ms = 20;  // accumulated time beyond the expected time
  double soon = 20, soon_ms = 100;  // time since the choice, if runs are faster than expected
  double late = 200, late_ms = 2000;  // time since the choice, in any case
  double window_ms = 8;  // total time of the runs that are compared with the expected time
};

// Decides when to retune: soon when runs become much slower or faster, otherwise periodically.
class ChoiceWatch {
 public:
  // Call after a choice: a run takes `expected_ms` (0: the time of the first runs), tuning took `cost_ms`.
  void restart(double expected_ms, double cost_ms);
  // Call after each run. Returns true to retune.
  bool add_run(double milliseconds, const RetryLimits& limits);
  bool as_expected() const { return as_expected_; }  // for the last runs

 private:
  double expected_ms_ = 0, cost_ms_ = 0;
  double elapsed_ms_ = 0, lost_ms_ = 0;  // over the runs since the choice
  bool as_expected_ = true;
  double window_ms_ = 0;               // of the last runs
  int window_ = 0;
};

// A choice that retunes when run times change. Between tunings only the chosen way must exist.
class RepeatedChoice {
 public:
  enum class Next : std::uint8_t {
    go_on,
    drop_others,  // the choice is made
    make_others,  // retune: prepare the ways, then call begin_again
  };
  explicit RepeatedChoice(std::size_t n_ways = 1) : choice_(n_ways) {}
  bool open() const { return choice_.open(); }
  std::size_t active() const { return choice_.active(); }  // way of the next run
  bool as_expected() const { return watch_.as_expected(); }  // the last runs took the expected time
  double ms(std::size_t way) const { return choice_.ms(way); }
  std::size_t n_ways() const { return choice_.n_ways(); }
  // Call after a run of the active way; its time is ignored unless `counts`.
  Next add_run(double milliseconds, bool counts, const RetryLimits& limits);
  // Starts retuning: ways [0, n_ways) exist, the active one first; preparing them took `cost_ms`.
  void begin_again(std::size_t n_ways, double cost_ms);
  // Sets the expected time of a run (0: the time of the next runs). A different time is a reason to retune.
  void expect(double milliseconds) { watch_.restart(milliseconds, tried_ms_); }

 private:
  TimedChoice choice_;
  ChoiceWatch watch_;
  double tried_ms_ = 0;  // cost of the last tuning
};

// Tuned schedules, by a key that describes the work completely.
class ScheduleChoices {
 public:
  std::optional<Schedule> find(const std::string& key) const;
  void keep(const std::string& key, Schedule schedule);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Schedule> chosen_;
};

}  // namespace unroll::cpu
