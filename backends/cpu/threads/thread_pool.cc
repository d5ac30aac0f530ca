// SPDX-License-Identifier: Apache-2.0
// Threads spin for some tens of microseconds for the next call or at a barrier, because both follow each other closely,
// then sleep. They do not yield in between. Beside other programs a yielded core returns only after the other program's
// time slice, milliseconds later, but a sleeping thread is woken at once.
#include "backends/cpu/threads/thread_pool.h"

#include <hwy/cache_control.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <thread>
#include <vector>

#include "core/support/process/forked.h"

namespace unroll::cpu {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double k_spin_ns = 50e3;  // about the time to put a thread to sleep and wake it
constexpr int k_spins_when_crowded = 20;

// A pause takes 10 to 140 cycles, depending on the processor. The minimum counts, because other programs may interrupt.
double pause_ns() {
  constexpr int k_pauses = 100;
  double least = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto start = Clock::now();
    for (int n = 0; n < k_pauses; ++n) hwy::Pause();
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - start).count() / k_pauses);
  }
  return std::max(least, 1.0);
}

int spins_of_a_wait() {
  static const int spins = static_cast<int>(k_spin_ns / pause_ns());
  return spins;
}

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
}

}  // namespace

// Either this thread sees a thread that is about to sleep and wakes it, or that thread sees the new value. Both sides
// write first and then read, in the single order of sequentially consistent operations.
void WaitWord::wake() {
  if (sleepers_.load(std::memory_order_seq_cst) > 0) futex(value_, FUTEX_WAKE_PRIVATE, INT_MAX);
}

void WaitWord::store(std::uint32_t value) {
  value_.store(value, std::memory_order_seq_cst);
  wake();
}

void WaitWord::add(std::uint32_t n) {
  value_.fetch_add(n, std::memory_order_seq_cst);
  wake();
}

void WaitWord::await_change(std::uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (load() != old) return;
    hwy::Pause();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (value_.load(std::memory_order_seq_cst) == old) futex(value_, FUTEX_WAIT_PRIVATE, old);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

// With more threads than cores, the thread to wait for may not be running.
int spins_before_sleep(int threads) {
  return threads > available_cores() ? k_spins_when_crowded : spins_of_a_wait();
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void Barrier::wait() {
  const std::uint32_t generation = generation_.load();
  if (broken_.load(std::memory_order_acquire)) throw BarrierBroken{};
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1);
    return;
  }
  generation_.await_change(generation, spins_);
  if (broken_.load(std::memory_order_acquire)) throw BarrierBroken{};
}

void Barrier::break_all() {
  broken_.store(true, std::memory_order_release);
  generation_.add(1);  // waiting threads read this
}

void Barrier::mend() {
  arrived_.store(0, std::memory_order_relaxed);
  broken_.store(false, std::memory_order_relaxed);
}

SharedRun::SharedRun(int n) : spins_(spins_before_sleep(n)), barrier_(std::max(n, 1), spins_) {}

void SharedRun::do_part(Call call, void* argument, int index, int count) {
  try {
    call(argument, {index, count, &barrier_});
  } catch (const BarrierBroken&) {
    // the failed worker has stored its error
  } catch (...) {
    {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    barrier_.break_all();
  }
}

void SharedRun::rethrow() {
  if (!error_) return;
  barrier_.mend();
  std::rethrow_exception(std::exchange(error_, nullptr));
}

class ThreadPool::Workers {
 public:
  explicit Workers(int n);
  ~Workers() { stop(); }

  bool are_inherited() const { return process_.is_inherited(); }
  void run(SharedRun::Call call, void* argument);

 private:
  void work(int index, int count);  // body of thread `index`
  void stop();
  int size() const { return static_cast<int>(threads_.size()) + 1; }

  const OfThisProcess process_;
  SharedRun shared_run_;
  SharedRun::Call call_ = nullptr;
  void* argument_ = nullptr;
  bool stop_ = false;
  alignas(64) WaitWord calls_;       // runs started
  alignas(64) WaitWord unfinished_;  // threads still in the current run
  std::vector<std::thread> threads_;
};

ThreadPool::Workers::Workers(int n) : shared_run_(n) {
  try {
    for (int i = 1; i < n; ++i) threads_.emplace_back([this, i, n] { work(i, n); });
  } catch (...) {
    stop();
    throw;
  }
}

void ThreadPool::Workers::stop() {
  stop_ = true;
  calls_.add(1);
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::Workers::run(SharedRun::Call call, void* argument) {
  call_ = call;
  argument_ = argument;
  unfinished_.store(static_cast<std::uint32_t>(size() - 1));
  calls_.add(1);
  shared_run_.do_part(call_, argument_, 0, size());
  for (std::uint32_t left = unfinished_.load(); left != 0; left = unfinished_.load())
    unfinished_.await_change(left, shared_run_.spins());
  shared_run_.rethrow();
}

void ThreadPool::Workers::work(int index, int count) {
  for (std::uint32_t last = 0;; ++last) {
    calls_.await_change(last, shared_run_.spins());
    if (stop_) return;
    shared_run_.do_part(call_, argument_, index, count);
    unfinished_.add(static_cast<std::uint32_t>(-1));
  }
}

ThreadPool::ThreadPool(int n) : size_(std::max(n, 1)), workers_(n > 1 ? std::make_unique<Workers>(n) : nullptr) {}

ThreadPool::~ThreadPool() { abandon_inherited(); }

void ThreadPool::abandon_inherited() {
  if (workers_ && workers_->are_inherited()) [[maybe_unused]] Workers* const left = workers_.release();
}

void ThreadPool::run_erased(SharedRun::Call call, void* argument) {
  if (size_ == 1) return call(argument, Worker{});
  abandon_inherited();
  if (!workers_) workers_ = std::make_unique<Workers>(size_);
  workers_->run(call, argument);
}

}  // namespace unroll::cpu
