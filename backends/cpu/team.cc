// SPDX-License-Identifier: Apache-2.0
// Threads spin for some tens of microseconds for the next call, because training calls follow each other closely,
// then sleep. Inside a run they spin, yield their core after a while, and then sleep: there may be fewer cores than
// threads, or other programs on them, and a core that waits is one that the thread waited for may need.
#include "backends/cpu/team.h"

#include <hwy/cache_control.h>
#include <sched.h>

#include <algorithm>

namespace unroll::cpu {

namespace {

// One pause takes 10 to 140 cycles, by processor.
constexpr int k_spins_before_yield = 2000;
constexpr int k_spins_before_yield_when_crowded = 20;
constexpr int k_yields_before_sleep = 50;
constexpr int k_spins_before_sleep = 1000;

// Returns when `value` is no longer `old`; whoever changes it calls notify_all.
template <class T>
void await_change(const std::atomic<T>& value, T old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    hwy::Pause();
  }
  for (int i = 0; i < k_yields_before_sleep; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

// With more threads than cores, the one waited for may not be running.
int spins_before_yield(int threads) {
  const unsigned cores = std::thread::hardware_concurrency();
  const bool crowded = cores != 0 && threads > static_cast<int>(cores);
  return crowded ? k_spins_before_yield_when_crowded : k_spins_before_yield;
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void Barrier::wait() {
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  if (broken_.load(std::memory_order_acquire)) throw BarrierBroken{};
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  await_change(generation_, generation, spins_);
  if (broken_.load(std::memory_order_acquire)) throw BarrierBroken{};
}

void Barrier::break_all() {
  broken_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);  // what waiting threads look at
  generation_.notify_all();
}

void Barrier::mend() {
  arrived_.store(0, std::memory_order_relaxed);
  broken_.store(false, std::memory_order_relaxed);
}

Lockstep::Lockstep(int n) : spins_(spins_before_yield(n)), barrier_(std::max(n, 1), spins_) {}

void Lockstep::do_part(Call call, void* argument, int index, int count) {
  try {
    call(argument, {index, count, &barrier_});
  } catch (const BarrierBroken&) {
    // the part that failed has left its error
  } catch (...) {
    {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    barrier_.break_all();
  }
}

void Lockstep::rethrow() {
  if (!error_) return;
  barrier_.mend();
  std::rethrow_exception(std::exchange(error_, nullptr));
}

Team::Team(int n) : lockstep_(n) {
  try {
    for (int i = 1; i < n; ++i) threads_.emplace_back([this, i, n] { work(i, n); });
  } catch (...) {
    stop();
    throw;
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  stop_ = true;
  start_call();
  for (auto& thread : threads_) thread.join();
}

void Team::run_erased(Lockstep::Call call, void* argument) {
  if (threads_.empty()) return call(argument, Part{});
  call_ = call;
  argument_ = argument;
  unfinished_.store(size() - 1, std::memory_order_relaxed);
  start_call();
  lockstep_.do_part(call_, argument_, 0, size());
  for (int left = unfinished_.load(std::memory_order_acquire); left != 0;
       left = unfinished_.load(std::memory_order_acquire))
    await_change(unfinished_, left, lockstep_.spins());
  lockstep_.rethrow();
}

// Either this sees a thread that is about to sleep and wakes it, or that thread sees the new count: both sides write
// first and read then, in the one order of sequentially consistent operations.
void Team::start_call() {
  calls_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  { const std::lock_guard lock(sleep_mutex_); }
  wake_.notify_all();
}

void Team::await_call(std::uint32_t last) {
  for (int spins = 0; spins < k_spins_before_sleep; ++spins) {
    if (calls_.load(std::memory_order_acquire) != last) return;
    hwy::Pause();
  }
  std::unique_lock lock(sleep_mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  wake_.wait(lock, [&] { return calls_.load(std::memory_order_seq_cst) != last; });
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Team::work(int index, int count) {
  for (std::uint32_t last = 0;; ++last) {
    await_call(last);
    if (stop_) return;
    lockstep_.do_part(call_, argument_, index, count);
    unfinished_.fetch_sub(1, std::memory_order_release);
    unfinished_.notify_all();
  }
}

}  // namespace unroll::cpu
