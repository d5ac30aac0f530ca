// SPDX-License-Identifier: Apache-2.0
// Progress of slow work, on stderr: a redrawn line on a terminal, which disappears at the end; elsewhere a line after
// two seconds without output. A separate thread shows it, also during blocking calls. Shorter work shows nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "unroll/train/trainer.h"

namespace unroll::cli {

class Activity {
 public:
  // "evaluating", 40: "evaluating 12/40, 4 s". Nested activities show the inner one.
  explicit Activity(std::string what, std::int64_t total = 0);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // A total above 0 replaces the previous one.
  void at(std::int64_t done, std::int64_t total = 0);
  // Starts other work: counts and seconds restart.
  void say(std::string what, std::int64_t total = 0);
  // Returns a function for TrainerOptions::stage that shows the trainer's stage after the text: "checking: training
  // 3/20". It must not be called after the activity is destroyed.
  StageReport stages();
  // Replaces the text on a terminal: returns a line of at most `width` columns. Called by the drawing thread.
  using Drawing = std::function<std::string(int width)>;
  void draw_as(Drawing drawing, bool green = false);
  // Call before printing a result; ends the activity.
  void finish();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// Prints a line on stderr above the activity: a warning.
void print_line(const std::string& text);
// The same, but nothing after hide_progress().
void print_progress(const std::string& text);
// Implements --quiet: no activity is shown from now on.
void hide_progress();

}  // namespace unroll::cli
