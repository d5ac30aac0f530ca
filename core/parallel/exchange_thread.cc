// SPDX-License-Identifier: Apache-2.0
#include "core/parallel/exchange_thread.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/support/elapsed.h"

namespace unroll {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

ExchangeThread::~ExchangeThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ExchangeThread::start(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;  // finish() throws the failure
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_all();
}

void ExchangeThread::finish() {
  const auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !is_busy_; });
  const double hidden = std::exchange(job_seconds_, 0) - seconds_since(begin);
  const std::exception_ptr failure = std::exchange(failure_, nullptr);
  lock.unlock();
  if (failure) std::rethrow_exception(failure);
  ranks_.note_hidden(std::max(hidden, 0.0));
}

void ExchangeThread::run_last(const std::function<void()>& job) {
  finish();
  job();
}

void ExchangeThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !jobs_.empty(); });
    if (ends_) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    is_busy_ = true;
    lock.unlock();
    const auto begin = Clock::now();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
    }
    const double seconds = seconds_since(begin);
    lock.lock();
    job_seconds_ += seconds;
    is_busy_ = false;
    if (failure) {
      failure_ = failure;
      jobs_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace unroll
