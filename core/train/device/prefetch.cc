// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/prefetch.h"

#include <chrono>

namespace unroll {

Prefetch::Prefetch(Make make, int depth, std::int64_t last)
    : make_(std::move(make)), depth_(static_cast<std::size_t>(depth)), last_(last) {
  if (depth_ > 0) thread_ = std::thread([this] { work(); });
}

Prefetch::~Prefetch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Prefetch::Made Prefetch::made(std::int64_t update) const {
  try {
    return {make_(update), nullptr};
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

void Prefetch::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (expected_ > 0 && next_ <= last_ && ready_.size() < depth_); });
    if (stop_) return;
    const std::int64_t update = next_++, round = round_;
    lock.unlock();
    Made result = made(update);
    lock.lock();
    if (round == round_) ready_.push_back(std::move(result));
    changed_.notify_all();
  }
}

std::vector<Batch> Prefetch::take(std::int64_t update) {
  const auto start = std::chrono::steady_clock::now();
  Made result;
  if (depth_ == 0 || update > last_) {
    result = made(update);
  } else {
    std::unique_lock lock(mutex_);
    if (update != expected_) {
      ready_.clear();
      ++round_;
      expected_ = next_ = update;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return !ready_.empty(); });
    result = std::move(ready_.front());
    ready_.pop_front();
    ++expected_;
    changed_.notify_all();
  }
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.batches);
}

}  // namespace unroll
