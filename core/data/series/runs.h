// SPDX-License-Identifier: Apache-2.0
// Row numbers of a series file: rows with values, and the positions of windows.
#pragma once

#include <cstdint>
#include <vector>

namespace unroll {

// Ascending numbers as runs of a, a + step, a + 2 step, ...
class Runs {
 public:
  explicit Runs(std::int64_t step = 1) : step_(step) {}
  void add(std::int64_t number);  // exceeds all others
  std::int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](std::int64_t index) const;
  template <class F>
  void for_each(const F& see) const {
    for_each_between(INT64_MIN, INT64_MAX, see);
  }
  // Those in [begin, end).
  template <class F>
  void for_each_between(std::int64_t begin, std::int64_t end, const F& see) const {
    for (std::size_t r = run_at(begin); r < runs_.size() && runs_[r].first < end; ++r) {
      const std::int64_t skipped = begin > runs_[r].first ? (begin - runs_[r].first + step_ - 1) / step_ : 0;
      std::int64_t n = runs_[r].first + skipped * step_;
      for (std::int64_t i = runs_[r].before + skipped; i < end_of(r) && n < end; ++i, n += step_) see(n);
    }
  }

 private:
  struct Run {
    std::int64_t first, before;  // its first number, and the count of all earlier numbers
  };
  std::size_t run_at(std::int64_t number) const;  // the last one that begins at a number up to this one, or the first
  std::int64_t end_of(std::size_t run) const { return run + 1 < runs_.size() ? runs_[run + 1].before : size_; }

  std::int64_t step_, size_ = 0;
  std::vector<Run> runs_;
};

// Rows [begin, end).
struct RowRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// Positions t of targets [t, t + horizon) within [begin, end), predicted from the `window` values before t. At least
// one target is observed in one of the series, t - window >= first, and positions are `stride` apart.
struct TargetOptions {
  std::int64_t window = 1, horizon = 1, first = 0, stride = 1;
};
Runs targets_between(const Runs& observed, std::int64_t begin, std::int64_t end, const TargetOptions& options);
// Appends them to `targets`, whose step is the stride.
void add_targets_between(const Runs& observed, std::int64_t begin, std::int64_t end, const TargetOptions& options,
                         Runs& targets);

}  // namespace unroll
