// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/program/barriers.h"

#include <algorithm>

namespace unroll::cpu {

namespace {

class BarrierFinder {
 public:
  BarrierFinder(std::span<const std::vector<Access>> calls, const Loop* loop) : calls_(calls), loop_(loop) {
    const std::size_t n = calls.size();
    same_step_.assign(n * n, false);
    next_step_.assign(n * n, false);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        if (i < j) same_step_[i * n + j] = conflict(calls[i], calls[j], false);
        if (loop) next_step_[i * n + j] = conflict(calls[i], calls[j], true);
      }
  }

  // Removes barriers, first to last, as long as every conflict has one in between.
  std::vector<bool> run() const {
    std::vector<bool> barriers(calls_.size(), true);
    for (std::size_t i = 0; i < barriers.size(); ++i) {
      if (!loop_ && i + 1 == barriers.size()) break;
      barriers[i] = false;
      if (!enough(barriers)) barriers[i] = true;
    }
    return barriers;
  }

 private:
  bool enough(const std::vector<bool>& barriers) const {
    const std::size_t n = barriers.size();
    std::vector<std::size_t> before(n + 1, 0);  // barriers after calls [0, i)
    for (std::size_t i = 0; i < n; ++i) before[i + 1] = before[i] + (barriers[i] ? 1 : 0);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        if (same_step_[i * n + j] && before[j] == before[i]) return false;
        if (next_step_[i * n + j] && before[n] - before[i] + before[j] == 0) return false;
      }
    return true;
  }

  // A state is read from the memory that the previous step wrote. The next one is written to memory that it read.
  std::uint32_t base_of(std::uint32_t base) const {
    if (!loop_ || base < k_first_input) return base;
    const auto first_output = k_first_input + static_cast<std::uint32_t>(loop_->n_inputs);
    return base < first_output ? base : first_output + static_cast<std::uint32_t>(loop_->same_as[base - first_output]);
  }
  bool same_memory(std::uint32_t a, std::uint32_t b, bool next) const {
    if (a == k_scratch || b == k_scratch) return a == b;
    a = base_of(a);
    b = base_of(b);
    if (!next || a < k_first_input) return a == b;
    const auto first_output = k_first_input + static_cast<std::uint32_t>(loop_->n_inputs);
    const auto states = static_cast<std::uint32_t>(loop_->n_states);
    const auto state_of = [&](std::uint32_t base, std::uint32_t first) {
      return base >= first && base < first + states;
    };
    const bool a_in = state_of(a, k_first_input), b_in = state_of(b, k_first_input);
    const bool a_out = state_of(a, first_output), b_out = state_of(b, first_output);
    // States that become one value may share memory.
    const auto written = [&](std::uint32_t in) {
      return first_output + static_cast<std::uint32_t>(loop_->same_as[in - k_first_input]);
    };
    if (a_in && b_out) return written(a) == b;
    if (a_out && b_in) return written(b) == a;
    return a == b && !(a >= first_output && loop_->kept[a - first_output]);
  }

  bool conflict(const std::vector<Access>& first, const std::vector<Access>& second, bool next) const {
    for (const Access& a : first)
      for (const Access& b : second) {
        if (!a.writes && !b.writes) continue;
        if (a.owner.units > 0 && a.owner == b.owner) continue;
        if (!same_memory(a.ref.base, b.ref.base, next)) continue;
        if (a.ref.offset < b.ref.offset + b.bytes && b.ref.offset < a.ref.offset + a.bytes) return true;
      }
    return false;
  }

  std::span<const std::vector<Access>> calls_;
  const Loop* loop_;
  std::vector<bool> same_step_, next_step_;  // [call][later call]
};

}  // namespace

std::vector<bool> find_barriers(std::span<const std::vector<Access>> calls, const Loop* loop) {
  return BarrierFinder(calls, loop).run();
}

}  // namespace unroll::cpu
