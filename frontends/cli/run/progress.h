// SPDX-License-Identifier: Apache-2.0
// The display of a training run: one redrawn line on a terminal, key=value lines elsewhere and in log.txt.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/terminal/activity.h"
#include "unroll/support/vfs.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

// key=value pairs, the most important first, as many as fit `width` columns.
constexpr std::size_t k_whole_line = SIZE_MAX;
std::string progress_line(const Progress& progress, double seconds_left, std::size_t width = k_whole_line);
std::string validation_line(const Progress& progress, std::optional<double> best, std::size_t width = k_whole_line);
// Returns time, and memory with its largest parts; after the run the error of both. `peak`: the largest memory of the
// process in bytes, 0 if unknown.
std::vector<std::string> estimate_lines(const RunEstimate& estimate);
std::string measured_line(const RunEstimate& estimate, const TrainResult& result, std::size_t peak);
std::string advice_line(const Advice& advice);
// At most `width` columns.
std::string progress_bar(const Progress& progress, std::optional<double> best, double seconds_left, int width);
std::string duration_text(double seconds);  // "1h02m", "3m05s", "12s"

// The end of a run: after an update, or after a time.
struct RunEnd {
  std::int64_t update = 0;  // 0: after Progress::max_updates
  double seconds = 0;       // 0: no limit
};

// Time until the end, from the wall-clock time per update. Its exponential mean forgets updates older than about half
// of the run, so that validations and checkpoints count and a single slow report does not.
class TimeLeft {
 public:
  // `limit` in seconds from the first report; 0: none.
  explicit TimeLeft(double limit) : limit_(limit) {}
  // Call at each report; `now` in seconds.
  double seconds(const Progress& progress, double now);

 private:
  double limit_;
  double began_ = 0, last_ = 0, seconds_ = 0, updates_ = 0;
  std::int64_t last_update_ = -1;
};

class ProgressDisplay {
 public:
  // Empty log_path: no log file. Advice is always a line of the log; with plain_advice also of stderr.
  ProgressDisplay(std::string log_path, Vfs& vfs, RunEnd end, bool plain_advice);

  void estimated(const RunEstimate& estimate);
  void report(Progress progress);
  void line(const std::string& text);     // wrapped on stderr, and to the log
  void command(const std::string& text);  // the same on one unwrapped line, for copying
  StageReport stages() { return busy_.stages(); }  // for TrainerOptions::stage
  void finish() { busy_.finish(); }    // call before printing a result
  void note(const std::vector<Advice>& advice);  // to the log, and to stderr with plain_advice
  const std::vector<Advice>& advice() const { return advice_; }  // given so far
  std::optional<std::int64_t> best_update() const { return best_update_; }  // of the reported ones

 private:
  void log(const std::string& text);
  void draw(const Progress& progress, double seconds_left);

  bool bar_;
  bool plain_advice_;
  std::vector<Advice> advice_;
  RunEnd end_;
  TimeLeft left_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<std::int64_t> best_update_;
  Activity busy_{"training"};
  std::optional<double> best_;        // validation loss
  std::optional<double> drawn_best_;  // the bar turns green once per better loss
  std::unique_ptr<Vfs::File> log_;
};

}  // namespace unroll::cli
