// SPDX-License-Identifier: Apache-2.0
// A call that may never return.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace unroll {

// Runs the call. Meanwhile a second thread polls `is_stuck(seconds since the call)`. Once true, it calls `stuck`, which
// should end the process.
template <class Call, class IsStuck, class Stuck>
auto watched(const Call& call, IsStuck is_stuck, Stuck stuck) {
  constexpr auto k_every = std::chrono::milliseconds(50);
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread watch([&] {
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, k_every, [&] { return done; }))
      if (is_stuck(seconds())) return stuck();
  });
  const auto result = call();
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  changed.notify_all();
  watch.join();
  return result;
}

}  // namespace unroll
