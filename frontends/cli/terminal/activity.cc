// SPDX-License-Identifier: Apache-2.0
// All activities share one line and one thread. The line is drawn with the cursor at its start and cleared to the end
// of the screen. A narrowed terminal that has wrapped the line keeps the cursor at its first row.
#include "frontends/cli/terminal/activity.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/support/text/printable.h"
#include "frontends/cli/terminal/terminal.h"

namespace unroll::cli {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Activity::State {
  std::string what, stage;
  std::int64_t done = 0, total = 0;
  Clock::time_point since = Clock::now();
  Drawing drawing;
  bool green = false;

  std::string text() const {
    std::string line = printable(what);
    if (!stage.empty() && stage != what) line += (what.empty() ? "" : ": ") + stage;
    if (total > 0) line += fmt::format(" {}/{}", done, total);
    else if (done > 0) line += fmt::format(" {}", done);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - since + milliseconds(500));
    if (seconds.count() >= 60) line += fmt::format(", {} min {} s", seconds.count() / 60, seconds.count() % 60);
    else if (seconds.count() > 0) line += fmt::format(", {} s", seconds.count());
    return line;
  }
};

namespace {

// A little less than two seconds, so that a late thread is still in time.
constexpr milliseconds k_silence{1800};
constexpr milliseconds k_redraw{200};

class StatusLine {
 public:
  void begin(Activity::State* state) {
    const std::lock_guard turn(turns_);
    const std::lock_guard lock(mutex_);
    live_.push_back(state);
    if (hidden_ || thread_.joinable()) return;
    ends_ = false;
    thread_ = std::thread([this] { run(); });
  }
  void end(Activity::State* state) {
    const std::lock_guard turn(turns_);
    std::thread last;
    {
      const std::lock_guard lock(mutex_);
      std::erase(live_, state);
      if (!live_.empty()) return;
      clear();
      ends_ = true;
      last.swap(thread_);
    }
    wake_.notify_all();
    if (last.joinable()) last.join();
  }
  // Changes a state that the thread may be reading.
  template <class F>
  void change(const F& how) {
    const std::lock_guard lock(mutex_);
    how();
  }
  void draw_now() {
    const std::lock_guard lock(mutex_);
    if (!hidden_ && redraws_) draw();
  }
  void print(const std::string& text) {
    const std::lock_guard lock(mutex_);
    clear();
    write(text + "\n");
  }
  void hide() {
    const std::lock_guard lock(mutex_);
    hidden_ = true;
  }
  bool is_hidden() {
    const std::lock_guard lock(mutex_);
    return hidden_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      if (redraws_) {
        if (!wake_.wait_for(lock, k_redraw, [this] { return ends_; })) draw();
      } else if (!wake_.wait_until(lock, last_ + k_silence, [this] { return ends_; })) {
        if (Clock::now() >= last_ + k_silence && !live_.empty())
          write(fitted(live_.back()->text(), terminal_width(STDERR_FILENO)) + "\n");
      }
    }
  }
  void draw() {
    if (live_.empty()) return;
    const Activity::State& state = *live_.back();
    const int width = terminal_width(STDERR_FILENO) - 1;
    const std::string text =
        state.drawing ? state.drawing(width) : fitted(state.text(), width);
    const bool green = state.green && colors_;
    if (drawn_ && text == shown_ && green == green_) return;
    write(fmt::format("\r\033[J{}{}{}\r", green ? "\033[32m" : "", text, green ? "\033[0m" : ""));
    shown_ = text;
    green_ = green;
    drawn_ = true;
  }
  void clear() {
    if (drawn_) write("\r\033[J");
    drawn_ = false;
  }
  void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
    last_ = Clock::now();
  }

  const bool redraws_ = can_redraw(), colors_ = can_color();
  std::mutex turns_;  // serializes starts and ends of activities
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
  std::vector<Activity::State*> live_;  // the innermost last
  bool ends_ = false, hidden_ = false, drawn_ = false, green_ = false;
  std::string shown_;
  Clock::time_point last_ = Clock::now();  // time of the last output; silence begins with the program
};

// Made at program start and never destroyed: no activity outlives main, except those that an exception leaks.
StatusLine& g_line = *new StatusLine;

}  // namespace

Activity::Activity(std::string what, std::int64_t total) : state_(std::make_unique<State>()) {
  state_->what = std::move(what);
  state_->total = total;
  g_line.begin(state_.get());
}

Activity::~Activity() { finish(); }

void Activity::finish() {
  if (state_) g_line.end(state_.get());
  state_.reset();
}

void Activity::at(std::int64_t done, std::int64_t total) {
  if (!state_) return;
  g_line.change([&] {
    state_->done = done;
    if (total > 0) state_->total = total;
  });
}

void Activity::say(std::string what, std::int64_t total) {
  if (!state_) return;
  g_line.change([&] {
    state_->what = std::move(what);
    state_->stage.clear();
    state_->done = 0;
    state_->total = total;
    state_->since = Clock::now();
  });
}

StageReport Activity::stages() {
  return [this](const WorkStage& stage) {
    if (!state_) return;
    g_line.change([&] {
      state_->stage = stage.doing;
      state_->done = stage.done;
      state_->total = stage.of;
    });
  };
}

void Activity::draw_as(Drawing drawing, bool green) {
  if (!state_) return;
  g_line.change([&] {
    state_->drawing = std::move(drawing);
    state_->green = green;
  });
  g_line.draw_now();
}

void print_line(const std::string& text) { g_line.print(printable(text, "\n")); }
void print_progress(const std::string& text) {
  if (!g_line.is_hidden()) print_line(text);
}
void hide_progress() { g_line.hide(); }

}  // namespace unroll::cli
