// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop/prefetch.h"

#include <chrono>
#include <iterator>

namespace unroll {

Prefetch::Prefetch(Make make, int depth, std::int64_t last)
    : make_(std::move(make)), depth_(depth), last_(last),
      ahead_(depth > 0 ? std::make_unique<Ahead>() : nullptr) {
  if (ahead_) ahead_->thread = std::thread([this] { work(); });
}

Prefetch::~Prefetch() {
  if (!ahead_) return;
  if (process_.is_inherited()) {  // the thread is one of the parent; it may hold the mutex for ever
    [[maybe_unused]] Ahead* const left = ahead_.release();
    return;
  }
  {
    const std::lock_guard lock(ahead_->mutex);
    ahead_->stop = true;
  }
  ahead_->changed.notify_all();
  ahead_->thread.join();
}

Prefetch::Made Prefetch::made(std::int64_t update) const {
  try {
    return {make_(update), nullptr};
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

void Prefetch::work() {
  Ahead& a = *ahead_;
  std::unique_lock lock(a.mutex);
  while (true) {
    a.changed.wait(lock, [&] { return a.stop || (a.expected > 0 && a.next <= last_ && std::ssize(a.ready) < depth_); });
    if (a.stop) return;
    const std::int64_t update = a.next++, round = a.round;
    lock.unlock();
    Made result = made(update);
    lock.lock();
    if (round == a.round) a.ready.push_back(std::move(result));
    a.changed.notify_all();
  }
}

std::vector<Batch> Prefetch::take(std::int64_t update) {
  const auto start = std::chrono::steady_clock::now();
  Made result;
  if (!ahead_ || update > last_) {
    result = made(update);
  } else {
    Ahead& a = *ahead_;
    std::unique_lock lock(a.mutex);
    if (update != a.expected) {
      a.ready.clear();
      ++a.round;
      a.expected = a.next = update;
      a.changed.notify_all();
    }
    a.changed.wait(lock, [&] { return !a.ready.empty(); });
    result = std::move(a.ready.front());
    a.ready.pop_front();
    ++a.expected;
    a.changed.notify_all();
  }
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.batches);
}

}  // namespace unroll
