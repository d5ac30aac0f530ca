// SPDX-License-Identifier: Apache-2.0
// How a caller ends long work that is not an update: reading data, counting words, planning, predicting. Such work
// calls check_interruption() some times a second at least, and is safe when that throws.
#pragma once

#include <functional>

#include "unroll/support/export.h"

namespace unroll {

// Calls the hook of this thread, if there is one. What the hook throws ends the work.
UNROLL_API void check_interruption();

// While it lives, check_interruption() in this thread calls `hook`, and not an earlier one.
class UNROLL_API InterruptionHook {
 public:
  explicit InterruptionHook(std::function<void()> hook);
  ~InterruptionHook();
  InterruptionHook(const InterruptionHook&) = delete;
  InterruptionHook& operator=(const InterruptionHook&) = delete;

 private:
  std::function<void()> hook_;
  const std::function<void()>* before_;
};

}  // namespace unroll
