// SPDX-License-Identifier: Apache-2.0
#include "core/support/forked.h"

#include <pthread.h>

namespace unroll {

namespace {
std::atomic<std::uint32_t> n_forks{0};
}

std::uint32_t fork_depth() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { n_forks.fetch_add(1, std::memory_order_relaxed); });
  return n_forks.load(std::memory_order_relaxed);
}

}  // namespace unroll
