// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/steps.h"

#include <algorithm>
#include <chrono>

namespace unroll::cpu {

void Steps::run(std::size_t begin, std::size_t end, const Frame& frame, const Part& part) {
  const Frame whole{frame.bases, frame.scratch};
  const auto run_one = [&](Step& step) {
    const Frame& seen = step.has_rows ? frame : whole;
    if (!step.alone) step.call->run(seen, part);
    else if (part.index == 0) step.call->run(seen, Part{});
    if (step.wait) part.sync();
  };
  if (part.index != 0 || timed_one_in_ == 0 || ++untimed_ < timed_one_in_) {
    for (std::size_t i = begin; i < end; ++i) run_one(steps_[i]);
    return;
  }
  untimed_ = 0;
  using Clock = std::chrono::steady_clock;
  auto before = Clock::now();
  for (std::size_t i = begin; i < end; ++i) {
    run_one(steps_[i]);
    const auto now = Clock::now();
    steps_[i].nanoseconds +=
        timed_one_in_ * std::chrono::duration_cast<std::chrono::nanoseconds>(now - before).count();
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

void Steps::report(std::vector<ReportLine>& lines, const std::string& indent) const {
  for (const Step& step : steps_) {
    const double milliseconds = static_cast<double>(step.nanoseconds) * 1e-6;
    lines.push_back({indent + step.name, step.call->implementation(), step.bytes, milliseconds});
    std::vector<ReportLine> inner;
    step.call->report(inner);
    for (ReportLine& line : inner)
      lines.push_back({indent + "  " + line.step, line.implementation, line.bytes, line.milliseconds});
  }
}

}  // namespace unroll::cpu
