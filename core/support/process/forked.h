// SPDX-License-Identifier: Apache-2.0
// Forks of the process. A child has a copy of its parent's memory, but of the threads only the one that forked.
#pragma once

#include <atomic>
#include <cstdint>

#include "unroll/support/export.h"

namespace unroll {

// How many forks lie between the process that asked first and this one: larger in a child than in its parent.
UNROLL_API std::uint32_t fork_depth();

// Where something was made that only its own process can use, such as a thread.
class OfThisProcess {
 public:
  // True in the child of a fork: the threads of the parent do not exist here, and nobody releases what they hold.
  bool is_inherited() const { return depth_ != fork_depth(); }

 private:
  std::uint32_t depth_ = fork_depth();
};

// Set while one thread uses an object.
class UseFlag {
 public:
  enum class State {
    taken,     // by this call; end() ends it
    busy,      // another thread uses the object
    abandoned  // a thread that does not exist in this process used it when the process forked
  };
  State begin() {
    std::uint64_t free = 0;
    if (user_.compare_exchange_strong(free, mark(), std::memory_order_acquire)) return State::taken;
    return free == mark() ? State::busy : State::abandoned;
  }
  // Takes an abandoned object. One thread gets it.
  State take_over() {
    std::uint64_t user = user_.load(std::memory_order_relaxed);
    if (user == mark()) return State::busy;
    return user_.compare_exchange_strong(user, mark(), std::memory_order_acquire) ? State::taken : State::busy;
  }
  void end() { user_.store(0, std::memory_order_release); }
  void abandon() { user_.store(k_nobody, std::memory_order_release); }

 private:
  static constexpr std::uint64_t k_nobody = ~std::uint64_t{0};  // the mark of no process
  static std::uint64_t mark() { return std::uint64_t{fork_depth()} + 1; }
  std::atomic<std::uint64_t> user_{0};
};

}  // namespace unroll
