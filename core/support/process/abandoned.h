// SPDX-License-Identifier: Apache-2.0
// Objects that cannot be deleted, because their destructors may use a backend that has been destroyed.
#pragma once

#include <mutex>
#include <vector>

namespace unroll {

// Keeps an object reachable to the end of the process, so that leak checkers do not report it.
inline void abandon(void* object) {
  static std::mutex mutex;
  static auto* const list = new std::vector<void*>;
  const std::scoped_lock lock(mutex);
  list->push_back(object);
}

}  // namespace unroll
