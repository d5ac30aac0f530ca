// SPDX-License-Identifier: Apache-2.0
// Detection of process forks. A child has a copy of its parent's memory, but only the forking thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "unroll/support/export.h"

namespace unroll {

// Returns the number of forks between the first caller's process and this one. A child has more than its parent.
UNROLL_API std::uint32_t fork_depth();

// Marks the creating process of an object that only this process can use, such as a thread.
class OfThisProcess {
 public:
  // True in the child of a fork, where the parent's threads do not exist and never release their locks.
  bool is_inherited() const { return depth_ != fork_depth(); }

 private:
  std::uint32_t depth_ = fork_depth();
};

// A flag of an object in use by one thread.
class UseFlag {
 public:
  enum class State {
    taken,     // by this call, until end()
    busy,      // another thread uses the object
    abandoned  // the using thread does not exist in this process, because of a fork
  };
  State begin() {
    std::uint64_t free = 0;
    if (user_.compare_exchange_strong(free, mark(), std::memory_order_acquire)) return State::taken;
    return free == mark() ? State::busy : State::abandoned;
  }
  // Takes an abandoned object. Only one thread succeeds.
  State take_over() {
    std::uint64_t user = user_.load(std::memory_order_relaxed);
    if (user == mark()) return State::busy;
    return user_.compare_exchange_strong(user, mark(), std::memory_order_acquire) ? State::taken : State::busy;
  }
  void end() { user_.store(0, std::memory_order_release); }
  void abandon() { user_.store(k_nobody, std::memory_order_release); }

 private:
  static constexpr std::uint64_t k_nobody = ~std::uint64_t{0};  // a mark that no process has
  static std::uint64_t mark() { return std::uint64_t{fork_depth()} + 1; }
  std::atomic<std::uint64_t> user_{0};
};

}  // namespace unroll
