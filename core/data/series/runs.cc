// SPDX-License-Identifier: Apache-2.0
#include "core/data/series/runs.h"

#include <algorithm>

namespace unroll {

void Runs::add(std::int64_t number) {
  if (runs_.empty() || number - runs_.back().first != (size_ - runs_.back().before) * step_)
    runs_.push_back({number, size_});
  ++size_;
}

std::size_t Runs::run_at(std::int64_t number) const {
  const auto after = std::ranges::upper_bound(runs_, number, {}, &Run::first);
  return after == runs_.begin() ? 0 : after - runs_.begin() - 1;
}

std::int64_t Runs::operator[](std::int64_t index) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), index,
                                      [](std::int64_t i, const Run& run) { return i < run.before; });
  const Run& run = *(after - 1);
  return run.first + (index - run.before) * step_;
}

void add_targets_between(const Runs& observed, std::int64_t begin, std::int64_t end, const TargetOptions& o,
                         Runs& targets) {
  std::int64_t next = std::max(begin, o.first + o.window), last = INT64_MIN / 2;
  observed.for_each_between(next, end, [&](std::int64_t t) {  // t is a target of the positions t - horizon + 1 to t
    for (next = std::max(next, t - o.horizon + 1); next <= t && next + o.horizon <= end; ++next) {
      if (next - last < o.stride) continue;
      targets.add(next);
      last = next;
    }
  });
}

Runs targets_between(const Runs& observed, std::int64_t begin, std::int64_t end, const TargetOptions& options) {
  Runs targets(options.stride);
  add_targets_between(observed, begin, end, options, targets);
  return targets;
}

}  // namespace unroll
