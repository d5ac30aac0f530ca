// SPDX-License-Identifier: Apache-2.0
// The threads of the cpu backend: all of them run the same function in lock step, each doing its share (`Worker`).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace unroll::cpu {

// A number that threads wait for. Setting it costs a system call only when a thread sleeps.
class WaitWord {
 public:
  std::uint32_t load() const { return value_.load(std::memory_order_acquire); }
  void store(std::uint32_t value);
  void add(std::uint32_t n);
  // Returns when the value is no longer `old`: pauses up to `spins` times, then sleeps.
  void await_change(std::uint32_t old, int spins);

 private:
  void wake();

  std::atomic<std::uint32_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

// Thrown out of Barrier::wait in the other parts when one part failed; never leaves ThreadPool::run.
struct BarrierBroken {};

// All `n` threads must arrive before any goes on; what was written before it is seen after it.
class Barrier {
 public:
  // A waiting thread pauses up to `spins` times, then sleeps.
  Barrier(int n, int spins) : n_(n), spins_(spins) {}
  void wait();
  void break_all();  // every present and later wait throws BarrierBroken
  void mend();       // only while nobody waits

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

// The share of one thread in a kernel: part `index` of `count`. How work is split never changes a result.
struct Worker {
  int index = 0;
  int count = 1;
  Barrier* barrier = nullptr;  // null only when count is 1

  void sync() const {
    if (count > 1) barrier->wait();
  }
  // This part's contiguous share of [0, n), cut at multiples of `grain`.
  Range share(std::int64_t n, std::int64_t grain = 1) const {
    const std::int64_t blocks = (n + grain - 1) / grain;
    const std::int64_t begin = blocks * index / count * grain;
    const std::int64_t end = blocks * (index + 1) / count * grain;
    return {begin < n ? begin : n, end < n ? end : n};
  }
};

// What the parts of one run share: the barrier and the first error.
class SharedRun {
 public:
  using Call = void (*)(void*, const Worker&);
  explicit SharedRun(int n);
  int spins() const { return spins_; }  // before a waiting thread sleeps
  // Runs part `index` of `count` and keeps its exception, the others leave their next barrier at once.
  void do_part(Call call, void* argument, int index, int count);
  // Once all parts are done: throws the first exception.
  void rethrow();

 private:
  const int spins_;
  Barrier barrier_;
  std::exception_ptr error_;
  std::mutex error_mutex_;
};

// How often one of `threads` threads that waits for another pauses before it sleeps.
int spins_before_sleep(int threads);

// Cores that this process may run on.
int available_cores();

// Persistent threads. The caller of run() works as part 0, so ThreadPool(1) starts no thread. The child of a fork has
// no threads of its parent: its next run starts others, even if another thread was in a run at the fork.
class ThreadPool {
 public:
  explicit ThreadPool(int n);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }
  // Calls f(const Worker&) once in every thread and returns when all are done. The first exception of a part is
  // rethrown here; the others leave their next barrier at once. One run at a time; not from inside a part.
  template <class F>
  void run(F&& f) {
    run_erased([](void* g, const Worker& worker) { (*static_cast<std::remove_reference_t<F>*>(g))(worker); },
               const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  class Workers;
  void run_erased(SharedRun::Call call, void* argument);
  // Workers of the parent are left where they are: they can neither be joined here nor destroyed while others wait.
  void abandon_inherited();

  const int size_;
  std::unique_ptr<Workers> workers_;  // null for one thread
};

}  // namespace unroll::cpu
