// SPDX-License-Identifier: Apache-2.0
#include "core/support/interruption.h"

#include <utility>

namespace unroll {

namespace {
thread_local const std::function<void()>* t_hook = nullptr;
}

void check_interruption() {
  if (t_hook) (*t_hook)();
}

InterruptionHook::InterruptionHook(std::function<void()> hook)
    : hook_(std::move(hook)), before_(std::exchange(t_hook, &hook_)) {}
InterruptionHook::~InterruptionHook() { t_hook = before_; }

}  // namespace unroll
