// SPDX-License-Identifier: Apache-2.0
// Runs work without Python's lock; Ctrl-C ends it.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>
#include <type_traits>

#include "core/support/interruption.h"
#include "unroll/support/error.h"

namespace unroll::python {

// Keeps the first Python exception: from a signal handler or a callback.
class Interruptible {
 public:
  // Runs work() without Python's lock. Signals are checked whenever the work calls check_interruption(). A stored
  // exception has precedence over that of the work, and over its result.
  template <class Work>
  auto run(const Work& work) {
    if constexpr (std::is_void_v<decltype(work())>) {
      outcome([&] { return work(), true; });
      raise();
    } else {
      auto result = outcome(work);
      raise();
      return result;
    }
  }

 protected:
  // Returns the result of run(), even if an exception is stored.
  template <class Work>
  auto outcome(const Work& work) {
    std::optional<decltype(work())> result;
    try {
      const nanobind::gil_scoped_release release;
      const InterruptionHook hook([this] { check(); });
      result.emplace(work());
    } catch (...) {
      raise();
      throw;
    }
    return std::move(*result);
  }
  std::optional<nanobind::python_error> raised_;

  template <class Call>
  void in_python(const Call& call) {
    const nanobind::gil_scoped_acquire lock;
    try {
      call();
    } catch (nanobind::python_error& error) {
      if (!raised_) raised_.emplace(std::move(error));
    }
  }
  // Asks Python only a few times per second, because other threads may hold its lock.
  void look_for_signals() {
    const auto now = Clock::now();
    if (now - asked_ < std::chrono::milliseconds(50)) return;
    asked_ = now;
    in_python([] {
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    });
  }
  // From now on the work ends by itself, because it must save its state.
  void ends_itself() { ends_itself_ = true; }

 private:
  using Clock = std::chrono::steady_clock;

  void check() {
    if (ends_itself_) return;
    look_for_signals();
    if (raised_) throw Error(ErrorKind::usage, "unroll", "was interrupted");  // raise() throws the exception
  }
  void raise() {
    if (raised_) throw std::move(*raised_);
  }

  bool ends_itself_ = false;
  Clock::time_point asked_ = Clock::now();
};

// Runs work() without Python's lock; Ctrl-C ends it with KeyboardInterrupt.
template <class Work>
auto interruptible(const Work& work) {
  return Interruptible().run(work);
}

}  // namespace unroll::python
