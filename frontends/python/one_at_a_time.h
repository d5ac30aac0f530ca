// SPDX-License-Identifier: Apache-2.0
// Two threads in one object are an error with a message, not a race.
#pragma once

#include <atomic>

#include "unroll/error.h"

namespace unroll::python {

class OneAtATime {
 public:
  OneAtATime(std::atomic_flag& used, const char* what) : used_(used) {
    if (used_.test_and_set(std::memory_order_acquire))
      throw Error(ErrorKind::usage, what, "another thread is using it",
                  "Wait for the other call, or make one for each thread");
  }
  ~OneAtATime() { used_.clear(std::memory_order_release); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  std::atomic_flag& used_;
};

}  // namespace unroll::python
