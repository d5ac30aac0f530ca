// SPDX-License-Identifier: Apache-2.0
// The bar never exceeds the terminal's width, so that redrawing stays on one line.
#include "frontends/cli/run/progress.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/support/elapsed.h"
#include "core/support/text/counted.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/cli/terminal/terminal.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

std::size_t stderr_width() { return terminal_width(STDERR_FILENO); }

// The extremes, each with the parameter or loop it belongs to.
std::vector<std::string> statistics_pairs(const TrainingStatistics& w) {
  std::vector<std::string> pairs;
  const auto larger = [](auto member) {
    return [member](const auto& a, const auto& b) { return a.second.*member < b.second.*member; };
  };
  const auto add = [&](const char* name, double value, const std::string& of) {
    pairs.push_back(fmt::format("{}={:.3g}@{}", name, value, of));
  };
  if (!w.parameters.empty()) {
    const auto [low, high] =
        std::minmax_element(w.parameters.begin(), w.parameters.end(), larger(&ParameterStatistics::update_ratio));
    add("lowest_update_ratio", low->second.update_ratio, low->first);
    add("highest_update_ratio", high->second.update_ratio, high->first);
  }
  if (!w.loops.empty()) {
    const auto saturated = std::max_element(w.loops.begin(), w.loops.end(), larger(&LoopStatistics::saturated));
    const auto dead = std::max_element(w.loops.begin(), w.loops.end(), larger(&LoopStatistics::dead));
    add("saturated", saturated->second.saturated, saturated->first);
    add("dead", dead->second.dead, dead->first);
  }
  return pairs;
}

// The most important first, because a long line is cut at the end.
std::vector<std::string> progress_pairs(const Progress& p, double seconds_left) {
  std::vector<std::string> pairs{fmt::format("update={}", p.update), fmt::format("of={}", p.max_updates),
                                 fmt::format("loss={:.5g}", p.loss)};
  for (const auto& [name, value] : p.metrics) pairs.push_back(fmt::format("{}={:.4g}", name, value));
  pairs.push_back("eta=" + duration_text(seconds_left));
  pairs.push_back(fmt::format("lr={:.3g}", p.lr));
  pairs.push_back(fmt::format("updates_per_second={:.3g}", p.updates_per_second));
  pairs.push_back(fmt::format("gradient_norm={:.3g}", p.gradient_norm));
  pairs.push_back(fmt::format("data_wait={:.1f}%", 100 * p.data_wait));
  if (p.statistics)
    for (std::string& pair : statistics_pairs(*p.statistics)) pairs.push_back(std::move(pair));
  return pairs;
}

std::vector<std::string> validation_pairs(const Progress& p, std::optional<double> best) {
  std::vector<std::string> pairs{fmt::format("validation update={}", p.update),
                                 fmt::format("loss={:.5g}", p.validation_loss.value_or(0))};
  if (best) pairs.push_back(fmt::format("best_loss={:.5g}", *best));
  pairs.push_back(fmt::format("best={}", p.best ? "yes" : "no"));
  for (const auto& [name, value] : p.validation_metrics) pairs.push_back(fmt::format("{}={:.4g}", name, value));
  return pairs;
}

// Returns as many complete pairs as fit `width`, at least three.
std::string joined(const std::vector<std::string>& pairs, std::size_t width) {
  constexpr std::size_t k_least = 3;
  std::string line;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (i >= k_least && columns_of(line) + 1 + columns_of(pairs[i]) > width) break;
    line += (i == 0 ? "" : " ") + pairs[i];
  }
  return line;
}

// Shows tenths of a second for short times.
std::string short_time(double seconds) {
  return seconds < 60 ? fmt::format("{:.1f} s", seconds) : duration_text(seconds);
}

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string progress_line(const Progress& p, double seconds_left, std::size_t width) {
  return joined(progress_pairs(p, seconds_left), width);
}

std::string validation_line(const Progress& p, std::optional<double> best, std::size_t width) {
  return joined(validation_pairs(p, best), width);
}

std::vector<std::string> estimate_lines(const RunEstimate& e) {
  constexpr std::size_t k_named = 3, k_width = 80;
  std::string memory = fmt::format("estimate: memory {}", bytes_text(e.bytes));
  for (std::size_t i = 0; i < std::min(e.memory.size(), k_named); ++i) {
    const std::string part =
        fmt::format("{}{} {}", i == 0 ? ": " : ", ", e.memory[i].name, bytes_text(e.memory[i].bytes));
    if (memory.size() + part.size() <= k_width) memory += part;
  }
  std::string time = "estimate: time unknown";
  if (e.update_seconds > 0)
    time = fmt::format("estimate: time {}: {} of {:.3g} ms, {} of {}", short_time(e.seconds()),
                       counted(e.updates, "update"), 1e3 * e.update_seconds, counted(e.validations, "validation"),
                       short_time(e.validation_seconds));
  return {time, memory};
}

std::string measured_line(const RunEstimate& e, const TrainResult& r, std::size_t peak) {
  const auto off = [](double is, double estimated) { return 100 * (is - estimated) / estimated; };
  std::string text = fmt::format("measured: time {} ({:+.0f} %)", short_time(r.seconds),
                                 off(r.seconds, r.estimated_seconds));
  // The peak is that of the process, which excludes `bytes` of a device.
  const auto estimated = static_cast<double>(e.on_device ? e.process_bytes : e.bytes);
  if (peak > 0)
    text += fmt::format(", memory {}{} ({:+.0f} %)", e.on_device ? "of the process " : "", bytes_text(peak),
                        off(static_cast<double>(peak), estimated));
  return text + " against the estimate";
}

std::string advice_line(const Advice& a) { return fmt::format("advice: {}: {}", a.symptom, a.text); }

std::string progress_bar(const Progress& p, std::optional<double> best, double seconds_left, int width) {
  const std::size_t room_for = std::max(width, 1);
  const std::string start = fmt::format("{}/{} loss {:.4f}", p.update, p.max_updates, p.loss);
  const std::string end = fmt::format(" {:.1f}/s eta {}", p.updates_per_second, duration_text(seconds_left));
  const std::string whole = best ? fmt::format(" best validation loss {:.4f}", *best) : "";
  const std::string short_best = best ? fmt::format(" best {:.4f}", *best) : "";
  std::string tail = start + whole + end;
  if (tail.size() > room_for) tail = start + short_best + end;
  if (tail.size() > room_for) tail = start + end;
  constexpr int k_least_bar = 5, k_longest_bar = 40;
  const int room = std::min(width - 3 - static_cast<int>(tail.size()), k_longest_bar);
  if (room < k_least_bar) return fitted(tail, room_for);
  const double share = p.max_updates > 0 ? static_cast<double>(p.update) / static_cast<double>(p.max_updates) : 0;
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * room);
  return "[" + std::string(filled, '#') + std::string(room - filled, '.') + "] " + tail;
}

double TimeLeft::seconds(const Progress& p, double now) {
  const std::int64_t update = p.update;
  if (last_update_ < 0) {
    began_ = now;
  } else if (update > last_update_ && now > last_) {
    constexpr double k_least_memory = 5;  // seconds
    const double passed = now - last_, memory = std::max(k_least_memory, (now - began_) / 2);
    const double kept = std::exp(-passed / memory);
    seconds_ = kept * seconds_ + passed;
    updates_ = kept * updates_ + static_cast<double>(update - last_update_);
  }
  last_ = now;
  last_update_ = update;
  const double each = updates_ > 0 ? seconds_ / updates_ : p.updates_per_second > 0 ? 1 / p.updates_per_second : 0;
  const double left = static_cast<double>(std::max<std::int64_t>(p.max_updates - update, 0)) * each;
  return limit_ > 0 ? std::clamp(limit_ - (now - began_), 0.0, left) : left;
}

ProgressDisplay::ProgressDisplay(std::string log_path, Vfs& vfs, RunEnd end, bool plain_advice)
    : bar_(can_redraw()), plain_advice_(plain_advice), end_(end), left_(end.seconds) {
  if (!log_path.empty()) log_ = vfs.append(log_path);
}

// A full disk must not stop the run: the checkpoint reports the loss, and the log just ends.
void ProgressDisplay::log(const std::string& text) {
  if (!log_) return;
  const std::string row = text + "\n";
  try {
    log_->write(std::as_bytes(std::span(row)));
  } catch (const Error&) {
    log_.reset();
  }
}

void ProgressDisplay::line(const std::string& text) {
  print_line(wrapped(text, stderr_width(), 2));
  log(text);
}

void ProgressDisplay::command(const std::string& text) {
  print_line(text);
  log(text);
}

void ProgressDisplay::estimated(const RunEstimate& estimate) {
  for (const std::string& text : estimate_lines(estimate)) {
    print_progress(wrapped(text, stderr_width(), 2));
    log(text);
  }
  for (const RunEstimate::Part& part : estimate.memory)
    log(fmt::format("estimate: memory of {}: {}", part.name, bytes_text(part.bytes)));
}

void ProgressDisplay::report(Progress p) {
  if (end_.update > 0) p.max_updates = std::min(p.max_updates, end_.update);
  if (p.validation_loss) {
    if (!best_ || p.best) {
      best_ = p.validation_loss;
      best_update_ = p.update;
    }
    if (!bar_) print_progress(validation_line(p, best_, stderr_width()));
    log(validation_line(p, best_));
    note(p.advice);
    return;
  }
  const double now = seconds_since(began_);
  const double left = left_.seconds(p, now);
  if (bar_) draw(p, left);
  else print_progress(progress_line(p, left, stderr_width()));
  log(progress_line(p, left));
  note(p.advice);
}

void ProgressDisplay::note(const std::vector<Advice>& advice) {
  for (const Advice& a : advice) {
    if (plain_advice_) line(advice_line(a));
    else log(advice_line(a));
    advice_.push_back(a);
  }
}

// After a better validation loss the bar is green until the next report. Between reports its time continues.
void ProgressDisplay::draw(const Progress& p, double left) {
  const bool new_best = best_ && best_ != drawn_best_;
  drawn_best_ = best_;
  const auto drawn = std::chrono::steady_clock::now();
  busy_.draw_as([p, best = best_, left, drawn](int width) {
    const double passed = seconds_since(drawn);
    return progress_bar(p, best, std::max(left - passed, 0.0), width);
  }, new_best);
}

}  // namespace unroll::cli
