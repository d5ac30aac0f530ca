// SPDX-License-Identifier: Apache-2.0
// What a person sees of a training run: one redrawn line on a terminal, key=value lines elsewhere and in log.txt.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/activity.h"
#include "unroll/trainer.h"
#include "unroll/vfs.h"

namespace unroll::cli {

// Both forms as text, for tests.
std::string progress_line(const Progress& progress, double seconds_left);
std::string validation_line(const Progress& progress);
// What the run will take; and how far that was off, of what was done. `peak`: bytes that the process came to hold, 0
// where that is not known.
std::string estimate_line(const RunEstimate& estimate);
std::string estimate_error_line(const RunEstimate& estimate, const TrainResult& result, std::size_t peak);
std::string advice_line(const Advice& advice);
std::string progress_bar(const Progress& progress, std::optional<double> best, double seconds_left, int width);
std::string duration_text(double seconds);  // "1h02m", "3m05s", "12s"

class ProgressDisplay {
 public:
  // log_path empty: no log file. With plain_advice advice is a line on stderr too; it always is one of the log.
  ProgressDisplay(std::string log_path, Vfs& vfs, bool plain_advice);

  void report(const Progress& progress);
  void line(const std::string& text);  // to stderr and the log
  void finish() { busy_.finish(); }    // before a result is printed
  const std::vector<Advice>& advice() const { return advice_; }  // given so far

 private:
  void log(const std::string& text);
  void draw(const Progress& progress, double seconds_left);
  double seconds_left(const Progress& progress) const;

  void note(const std::vector<Advice>& advice);

  bool bar_;
  bool plain_advice_;
  std::vector<Advice> advice_;
  Activity busy_{"training"};
  std::optional<double> best_;        // validation loss
  std::optional<double> drawn_best_;  // the bar turns green once for each better one
  std::unique_ptr<Vfs::File> log_;
};

}  // namespace unroll::cli
