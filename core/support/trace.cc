// SPDX-License-Identifier: Apache-2.0
#include "unroll/support/trace.h"

#include <new>

namespace unroll {

void Trace::open_lanes(int n) try {
  while (std::ssize(lanes_) < n) {
    lanes_.emplace_back();
    lanes_.back().events.reserve(most_events_);
  }
} catch (const std::bad_alloc&) {
  throw Error(ErrorKind::memory, "trace", "no memory for " + std::to_string(most_events_) + " events per thread",
              "Keep fewer events");
}

std::uint32_t Trace::name(const std::string& text) {
  const std::lock_guard lock(mutex_);
  names_.push_back(text);
  return static_cast<std::uint32_t>(names_.size() - 1);
}

}  // namespace unroll
