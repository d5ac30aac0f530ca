// SPDX-License-Identifier: Apache-2.0
// The bar never exceeds the terminal's width, so that redrawing stays on one line.
#include "frontends/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "frontends/cli/report.h"
#include "frontends/cli/terminal.h"
#include "unroll/error.h"

namespace unroll::cli {
namespace {

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format(" {}={:.4g}", name, value);
  return text;
}

// The extremes, each with whom it belongs to.
std::string watch_text(const Watch& w) {
  std::string text;
  const auto larger = [](auto member) {
    return [member](const auto& a, const auto& b) { return a.second.*member < b.second.*member; };
  };
  const auto add = [&](const char* name, double value, const std::string& of) {
    text += fmt::format(" {}={:.3g}@{}", name, value, of);
  };
  if (!w.parameters.empty()) {
    const auto [low, high] =
        std::minmax_element(w.parameters.begin(), w.parameters.end(), larger(&ParameterWatch::update_ratio));
    add("lowest_update_ratio", low->second.update_ratio, low->first);
    add("highest_update_ratio", high->second.update_ratio, high->first);
  }
  if (!w.loops.empty()) {
    const auto saturated = std::max_element(w.loops.begin(), w.loops.end(), larger(&LoopWatch::saturated));
    const auto dead = std::max_element(w.loops.begin(), w.loops.end(), larger(&LoopWatch::dead));
    add("saturated", saturated->second.saturated, saturated->first);
    add("dead", dead->second.dead, dead->first);
  }
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string progress_line(const Progress& p, double seconds_left) {
  return fmt::format(
      "update={} of={} loss={:.5g}{} lr={:.3g} gradient_norm={:.3g} updates_per_second={:.3g} "
      "data_wait={:.1f}% eta={}{}",
      p.update, p.max_updates, p.loss, metrics_text(p.metrics), p.lr, p.gradient_norm, p.updates_per_second,
      100 * p.data_wait, duration_text(seconds_left), p.watch ? watch_text(*p.watch) : "");
}

std::string validation_line(const Progress& p) {
  return fmt::format("validation update={} loss={:.5g}{} best={}", p.update, p.validation_loss.value_or(0),
                     metrics_text(p.validation_metrics), p.best ? "yes" : "no");
}

namespace {

// With a tenth of a second where that says something.
std::string short_time(double seconds) {
  return seconds < 60 ? fmt::format("{:.1f}s", seconds) : duration_text(seconds);
}

}  // namespace

std::string estimate_line(const RunEstimate& e) {
  std::string parts;
  for (const RunEstimate::Part& part : e.memory) parts += fmt::format(", {} {}", part.name, bytes_text(part.bytes));
  if (e.saved_bytes > 0)
    parts += fmt::format(" (of the arena {} are saved for the gradient)", bytes_text(e.saved_bytes));
  const std::string time = e.update_seconds > 0
                               ? fmt::format("{} for {} updates of {:.3g} ms and {} validations",
                                             short_time(e.seconds()), e.updates, 1e3 * e.update_seconds, e.validations)
                               : "time unknown";
  return fmt::format("estimate: {}; {} of memory{}", time, bytes_text(e.bytes), parts);
}

std::string estimate_error_line(const RunEstimate& e, const TrainResult& r, std::size_t peak) {
  const auto off = [](double is, double estimated) { return 100 * (is - estimated) / estimated; };
  std::string text = fmt::format("estimate: {} were {} ({:+.0f} %)", short_time(r.estimated_seconds),
                                 short_time(r.seconds), off(r.seconds, r.estimated_seconds));
  if (peak > 0)
    text += fmt::format("; {} of memory were {} ({:+.0f} %)", bytes_text(e.bytes), bytes_text(peak),
                        off(static_cast<double>(peak), static_cast<double>(e.bytes)));
  return text;
}

std::string advice_line(const Advice& a) { return fmt::format("advice: {}: {}", a.symptom, a.text); }

std::string progress_bar(const Progress& p, std::optional<double> best, double seconds_left, int width) {
  const std::string tail =
      fmt::format(" {}/{} loss {:.4f}{} {:.1f}/s eta {}", p.update, p.max_updates, p.loss,
                  best ? fmt::format(" best {:.4f}", *best) : "", p.updates_per_second, duration_text(seconds_left));
  const int room = std::min(width - 3 - static_cast<int>(tail.size()), 40);
  std::string bar;
  if (room >= 5) {
    const double share = p.max_updates > 0 ? static_cast<double>(p.update) / static_cast<double>(p.max_updates) : 0;
    const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * room);
    bar = "[" + std::string(filled, '#') + std::string(static_cast<std::size_t>(room) - filled, '.') + "]";
  }
  return fitted(bar + tail, static_cast<std::size_t>(std::max(width, 1)));
}

ProgressDisplay::ProgressDisplay(std::string log_path, Vfs& vfs, bool plain_advice)
    : bar_(can_redraw()), plain_advice_(plain_advice) {
  if (!log_path.empty()) log_ = vfs.append(log_path);
}

double ProgressDisplay::seconds_left(const Progress& p) const {
  return p.updates_per_second > 0 ? static_cast<double>(p.max_updates - p.update) / p.updates_per_second : 0;
}

// A full disk must not stop the run: the checkpoint says what is lost, the log just ends.
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
  print_line(text);
  log(text);
}

void ProgressDisplay::report(const Progress& p) {
  if (p.validation_loss) {
    if (!best_ || p.best) best_ = p.validation_loss;
    if (!bar_) print_progress(validation_line(p));
    log(validation_line(p));
    note(p.advice);
    return;
  }
  const double left = seconds_left(p);
  const std::string row = progress_line(p, left);
  if (bar_) draw(p, left);
  else print_progress(row);
  log(row);
  note(p.advice);
}

void ProgressDisplay::note(const std::vector<Advice>& advice) {
  for (const Advice& a : advice) {
    if (plain_advice_) line(advice_line(a));
    else log(advice_line(a));
    advice_.push_back(a);
  }
}

// The bar is green from a better validation loss on until the next report.
void ProgressDisplay::draw(const Progress& p, double left) {
  const bool new_best = best_ && best_ != drawn_best_;
  drawn_best_ = best_;
  busy_.draw_as([p, best = best_, left](int width) { return progress_bar(p, best, left, width); }, new_best);
}

}  // namespace unroll::cli
