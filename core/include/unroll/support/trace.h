// SPDX-License-Identifier: Apache-2.0
// A bounded record of the threads' activity in a backend, with times. See BackendOptions::trace.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "unroll/support/error.h"

namespace unroll {

class UNROLL_API Trace {
 public:
  // Times are nanoseconds of the steady clock.
  struct Event {
    std::uint32_t name;
    std::int64_t begin, end;
  };

  // Keeps up to `most_events` events per lane; later events are only counted. An event is 24 bytes.
  explicit Trace(std::size_t most_events) : most_events_(most_events), names_{"wait"} {}

  // The event name for waiting for other threads.
  static constexpr std::uint32_t k_wait = 0;

  // For backends. A lane is the timeline of one thread.
  void open_lanes(int n);  // before the first event; throws Error(memory)
  std::uint32_t name(const std::string& text);
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  void add(int lane, const Event& event) {  // one thread per lane
    Lane& own = lanes_[static_cast<std::size_t>(lane)];
    if (own.events.size() < most_events_) own.events.push_back(event);
    else ++own.dropped;
  }

  // For readers, between runs.
  void record(bool on) { recording_.store(on, std::memory_order_relaxed); }
  std::size_t n_lanes() const { return lanes_.size(); }
  const std::vector<Event>& events(std::size_t lane) const { return lanes_[lane].events; }
  std::size_t dropped(std::size_t lane) const { return lanes_[lane].dropped; }
  const std::string& text(std::uint32_t name) const { return names_[name]; }

 private:
  struct alignas(64) Lane {
    std::vector<Event> events;  // allocated in advance
    std::size_t dropped = 0;
  };
  std::size_t most_events_;
  std::atomic<bool> recording_{false};
  std::mutex mutex_;  // guards names_
  std::vector<std::string> names_;  // k_wait first
  std::vector<Lane> lanes_;
};

}  // namespace unroll
