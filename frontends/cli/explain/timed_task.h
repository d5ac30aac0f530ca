// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "frontends/cli/explain/profiling_backend.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

constexpr std::size_t k_most_host_spans = 5000;  // of the trainer, and of the batches

// A task that measures the time of its batches.
class TimedTask final : public Task {
 public:
  explicit TimedTask(std::shared_ptr<const Task> inside) : inside_(std::move(inside)) {}
  TaskGraph build(Scope& scope, const Batch& like) const override { return inside_->build(scope, like); }
  std::int64_t shards() const override { return inside_->shards(); }
  std::int64_t evaluation_shards(Split split) const override { return inside_->evaluation_shards(split); }
  std::int64_t n_batches(Split split) const override { return inside_->n_batches(split); }
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const auto begin = ProfilingBackend::Clock::now();
    Batch batch = inside_->batch(split, seed, epoch, index);
    const auto end = ProfilingBackend::Clock::now();
    const std::lock_guard lock(mutex_);
    ++n_;
    seconds_ += std::chrono::duration<double>(end - begin).count();
    if (spans_.size() < k_most_host_spans) spans_.push_back({"batch", begin, end});
    return batch;
  }
  double seconds_each() const {
    const std::lock_guard lock(mutex_);
    return n_ == 0 ? 0 : seconds_ / static_cast<double>(n_);
  }
  std::vector<ProfilingBackend::Span> spans_since(ProfilingBackend::Clock::time_point begin) const {
    const std::lock_guard lock(mutex_);
    std::vector<ProfilingBackend::Span> since;
    for (const auto& span : spans_)
      if (span.end >= begin) since.push_back(span);
    return since;
  }

 private:
  std::shared_ptr<const Task> inside_;
  mutable std::mutex mutex_;  // another thread builds batches ahead
  mutable std::int64_t n_ = 0;
  mutable double seconds_ = 0;
  mutable std::vector<ProfilingBackend::Span> spans_;
};

}  // namespace unroll::cli
