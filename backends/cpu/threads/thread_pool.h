// SPDX-License-Identifier: Apache-2.0
// The thread pool of the cpu backend: all workers run the same function in lock step, each its share (`Worker`).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace unroll::cpu {

// A number that threads wait for. Setting it needs a system call only if a thread sleeps.
class WaitWord {
 public:
  std::uint32_t load() const { return value_.load(std::memory_order_acquire); }
  void store(std::uint32_t value);
  void add(std::uint32_t n);
  // Returns when the value differs from `old`: pauses up to `spins` times, then sleeps.
  void await_change(std::uint32_t old, int spins);

 private:
  void wake();

  std::atomic<std::uint32_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

// Barrier::wait throws this in the other workers when one worker failed; it never leaves ThreadPool::run.
struct BarrierBroken {};

// All `n` threads must arrive before any continues; writes before the barrier are visible after it.
class Barrier {
 public:
  // A waiting thread pauses up to `spins` times, then sleeps.
  Barrier(int n, int spins) : n_(n), spins_(spins) {}
  void wait();
  void break_all();  // every current and later wait throws BarrierBroken
  void mend();       // only while no thread waits

 private:
  const int n_;
  const int spins_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) WaitWord generation_;
  std::atomic<bool> broken_{false};
};

struct Range {
  std::int64_t begin;
  std::int64_t end;
  bool empty() const { return begin >= end; }
};

// The share of one thread in a kernel: worker `index` of `count`. The division of work never changes a result.
struct Worker {
  int index = 0;
  int count = 1;
  Barrier* barrier = nullptr;  // null only if count is 1

  void sync() const {
    if (count > 1) barrier->wait();
  }
  // Returns this worker's contiguous share of [0, n), divided at multiples of `grain`.
  Range share(std::int64_t n, std::int64_t grain = 1) const {
    const std::int64_t blocks = (n + grain - 1) / grain;
    const std::int64_t begin = blocks * index / count * grain;
    const std::int64_t end = blocks * (index + 1) / count * grain;
    return {begin < n ? begin : n, end < n ? end : n};
  }
};

// State that the workers of one run share: the barrier and the first error.
class SharedRun {
 public:
  using Call = void (*)(void*, const Worker&);
  explicit SharedRun(int n);
  int spins() const { return spins_; }  // before a waiting thread sleeps
  // Runs worker `index` of `count` and keeps its exception; the others leave their next barrier at once.
  void do_part(Call call, void* argument, int index, int count);
  // Call when all workers have finished: throws the first exception.
  void rethrow();

 private:
  const int spins_;
  Barrier barrier_;
  std::exception_ptr error_;
  std::mutex error_mutex_;
};

// Returns the number of pauses before one of `threads` waiting threads sleeps.
int spins_before_sleep(int threads);

// Returns the number of cores that this process may run on.
int available_cores();

// A persistent thread pool. The caller of run() is worker 0, so ThreadPool(1) starts no thread. A forked child does not
// inherit the threads: its next run starts new ones, even if another thread was in a run at the fork.
class ThreadPool {
 public:
  explicit ThreadPool(int n);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }
  // Calls f(const Worker&) once on every thread and returns when all have finished. Rethrows the first exception of a
  // worker; the others leave their next barrier at once. One run at a time; not from inside a worker.
  template <class F>
  void run(F&& f) {
    run_erased([](void* g, const Worker& worker) { (*static_cast<std::remove_reference_t<F>*>(g))(worker); },
               const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  class Workers;
  void run_erased(SharedRun::Call call, void* argument);
  // Leaks the parent's workers: they can neither be joined here nor destroyed while others wait.
  void abandon_inherited();

  const int size_;
  std::unique_ptr<Workers> workers_;  // null for one thread
};

}  // namespace unroll::cpu
