// SPDX-License-Identifier: Apache-2.0
// Progress of anything that takes long, on stderr: a redrawn line on a terminal, which disappears at the end; elsewhere
// a line whenever nothing was said for two seconds. A thread of its own shows it, so that a call that blocks is no
// silence. Nothing is shown of work that ends sooner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "unroll/train/trainer.h"

namespace unroll::cli {

class Activity {
 public:
  // "evaluating", 40: "evaluating 12/40, 4 s". While one activity is inside another, the inner one is shown.
  explicit Activity(std::string what, std::int64_t total = 0);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // A total above 0 replaces the one before.
  void at(std::int64_t done, std::int64_t total = 0);
  // Goes on to other work: counts and seconds begin again.
  void say(std::string what, std::int64_t total = 0);
  // A function for TrainerOptions::stage that shows what a trainer is doing, after the text: "checking: training 3/20".
  // Must not be called after the activity is destroyed.
  StageReport stages();
  // What a terminal shows in the place of the text: a line of at most `width` columns. Called by the thread that draws.
  using Drawing = std::function<std::string(int width)>;
  void draw_as(Drawing drawing, bool green = false);
  // Before a result is printed; the activity is over.
  void finish();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// A line on stderr above what an activity draws: a warning.
void print_line(const std::string& text);
// The same, but not after hide_progress().
void print_progress(const std::string& text);
// --quiet: no activity is shown from now on.
void hide_progress();

}  // namespace unroll::cli
