// SPDX-License-Identifier: Apache-2.0
// What the threads of a backend did and when, within bounds: see BackendOptions::trace.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "unroll/error.h"

namespace unroll {

class UNROLL_API Trace {
 public:
  // Nanoseconds of the steady clock.
  struct Event {
    std::uint32_t name;
    std::int64_t begin, end;
  };

  // Keeps at most so many events of each lane (16 bytes more than two times of a clock); later ones are counted only.
  explicit Trace(std::size_t most_events) : most_events_(most_events), names_{"wait"} {}

  // The name of waiting for other threads.
  static constexpr std::uint32_t k_wait = 0;

  // For backends. A lane is one thread's line of time.
  void open_lanes(int n);  // before any event; throws Error(memory)
  std::uint32_t name(const std::string& text);
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  void add(int lane, const Event& event) {  // by one thread for each lane
    Lane& own = lanes_[static_cast<std::size_t>(lane)];
    if (own.events.size() < most_events_) own.events.push_back(event);
    else ++own.dropped;
  }

  // For whoever reads it, between runs.
  void record(bool on) { recording_.store(on, std::memory_order_relaxed); }
  std::size_t n_lanes() const { return lanes_.size(); }
  const std::vector<Event>& events(std::size_t lane) const { return lanes_[lane].events; }
  std::size_t dropped(std::size_t lane) const { return lanes_[lane].dropped; }
  const std::string& text(std::uint32_t name) const { return names_[name]; }

 private:
  struct alignas(64) Lane {
    std::vector<Event> events;  // has room for all from the beginning
    std::size_t dropped = 0;
  };
  std::size_t most_events_;
  std::atomic<bool> recording_{false};
  std::mutex mutex_;  // of names_
  std::vector<std::string> names_;  // k_wait first
  std::vector<Lane> lanes_;
};

}  // namespace unroll
