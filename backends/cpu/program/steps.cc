// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/program/steps.h"

#include <algorithm>
#include <chrono>

namespace unroll::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// whole: the frame with all rows.
void run_call(Step& step, const Frame& frame, const Frame& whole, const Worker& worker) {
  const Frame& seen = step.has_rows ? frame : whole;
  if (!step.alone) step.call->run(seen, worker);
  else if (worker.index == 0) step.call->run(seen, Worker{});
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

void Steps::add(Step step) {
  if (trace_) step.traced_as = trace_->name(step.name);
  steps_.push_back(std::move(step));
}

// Traces each call of each worker and its wait for the others.
void Steps::run_traced(std::size_t begin, std::size_t end, const Frame& frame, const Worker& worker) {
  const Frame whole{frame.bases, frame.scratch, {}, frame.lane};
  for (std::size_t i = begin; i < end; ++i) {
    const std::int64_t start = now_ns();
    run_call(steps_[i], frame, whole, worker);
    const std::int64_t done = now_ns();
    trace_->add(frame.lane, {steps_[i].traced_as, start, done});
    if (!steps_[i].wait || worker.count == 1) continue;
    worker.sync();
    trace_->add(frame.lane, {Trace::k_wait, done, now_ns()});
  }
}

void Steps::run(std::size_t begin, std::size_t end, const Frame& frame, const Worker& worker) {
  if (trace_ && trace_->recording()) return run_traced(begin, end, frame, worker);
  const Frame whole{frame.bases, frame.scratch, {}, frame.lane};
  const auto run_one = [&](Step& step) {
    run_call(step, frame, whole, worker);
    if (step.wait) worker.sync();
  };
  if (worker.index != 0 || timed_one_in_ == 0 || ++untimed_ < timed_one_in_) {
    for (std::size_t i = begin; i < end; ++i) run_one(steps_[i]);
    return;
  }
  untimed_ = 0;
  auto before = Clock::now();
  for (std::size_t i = begin; i < end; ++i) {
    run_one(steps_[i]);
    const auto now = Clock::now();
    steps_[i].nanoseconds += timed_one_in_ * std::chrono::duration_cast<std::chrono::nanoseconds>(now - before).count();
    before = now;
  }
}

int Steps::n_barriers() const {
  return static_cast<int>(std::count_if(steps_.begin(), steps_.end(), [](const Step& step) { return step.wait; }));
}

bool Steps::settled() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.call->settled(); });
}

std::size_t Steps::held_bytes() const {
  std::size_t bytes = 0;
  for (const Step& step : steps_) bytes += step.call->held_bytes();
  return bytes;
}

namespace {

double predicted_of(const Step& step) {
  const double known = step.call->predicted_ns();
  return known > 0 ? known : step.predicted_ns;
}

}  // namespace

double Steps::predicted_ns() const {
  double sum = 0;
  for (const Step& step : steps_) sum += predicted_of(step);
  return times_ * sum;
}

void Steps::report(std::vector<ReportLine>& lines) const {
  const std::size_t first = lines.size();
  for (const Step& step : steps_) {
    const double milliseconds = static_cast<double>(step.nanoseconds) * 1e-6;
    lines.push_back(
        {step.name, step.call->implementation(), step.bytes, milliseconds, predicted_of(step) * 1e-6, 0, step.node});
    const std::size_t inner = lines.size();
    step.call->report(lines);
    for (std::size_t i = inner; i < lines.size(); ++i) ++lines[i].depth;
  }
  for (std::size_t i = first; i < lines.size(); ++i) lines[i].predicted_ms *= times_;
}

}  // namespace unroll::cpu
