// SPDX-License-Identifier: Apache-2.0
// Interruption of long work other than updates: reading data, counting words, planning, predicting. Such work calls
// check_interruption() several times per second, and is safe if it throws.
#pragma once

#include <functional>

#include "unroll/support/export.h"

namespace unroll {

// Calls the hook of this thread, if any. An exception of the hook ends the work.
UNROLL_API void check_interruption();

// Sets the hook of this thread during its lifetime, in place of an earlier hook.
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
