// SPDX-License-Identifier: Apache-2.0
#include "tests/support/late_backend.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace unroll::testing {

// A broken queue does nothing before it must, so that the fault always shows, and without data races.
LateQueue::LateQueue(Broken broken)
    : broken_(broken),
      most_waiting_(broken == Broken::none ? k_waiting : std::numeric_limits<std::size_t>::max()),
      thread_([this] { work(); }) {}

LateQueue::~LateQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LateQueue::push_upload(std::function<void()> work) {
  surface();
  {
    const std::lock_guard lock(mutex_);
    const auto is_run = [](const Task& task) { return task.is_run; };
    const bool overtakes = broken_ == Broken::upload_overtakes;
    tasks_.insert(overtakes ? std::find_if(tasks_.begin(), tasks_.end(), is_run) : tasks_.end(),
                  {std::move(work), false});
  }
  changed_.notify_all();
}

void LateQueue::push_run(std::function<void()> work) {
  surface();
  {
    const std::lock_guard lock(mutex_);
    auto before = tasks_.end();
    if (broken_ == Broken::runs_swap)
      for (auto at = tasks_.begin(); at != tasks_.end(); ++at)
        if (at->is_run) before = at;
    tasks_.insert(before, {std::move(work), true});
  }
  changed_.notify_all();
}

void LateQueue::drain() {
  std::unique_lock lock(mutex_);
  ++draining_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return tasks_.empty() && !busy_; });
  --draining_;
}

void LateQueue::surface() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void LateQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || may_start(); });
    if (!may_start()) return;
    std::function<void()> task = std::move(tasks_.front().work);
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    task = nullptr;  // buffers that only this task kept go here
    lock.lock();
    if (error) {
      tasks_.clear();
      if (broken_ != Broken::loses_errors) error_ = error;
    }
    busy_ = false;
    changed_.notify_all();
  }
}

namespace {

// Its memory stays until the work that uses it is done.
struct LateBuffer final : Buffer {
  explicit LateBuffer(std::unique_ptr<Buffer> buffer) : inner(std::move(buffer)) {}
  std::size_t bytes() const override { return inner->bytes(); }
  std::shared_ptr<Buffer> inner;
};

std::shared_ptr<Buffer> inner_of(const Buffer& buffer) {
  const auto* late = dynamic_cast<const LateBuffer*>(&buffer);
  if (!late) throw Error(ErrorKind::usage, "LateBackend", "the buffer was allocated by another backend");
  return late->inner;
}

}  // namespace

class LateBackend::LateExecutable final : public Executable {
 public:
  LateExecutable(std::unique_ptr<Executable> inner, LateBackend& backend)
      : inner_(std::move(inner)), backend_(backend) {}

  void run(const Bindings& bindings) override {
    std::vector<std::shared_ptr<Buffer>> inputs, outputs;
    for (const Buffer* buffer : bindings.inputs) inputs.push_back(inner_of(*buffer));
    for (const Buffer* buffer : bindings.outputs) outputs.push_back(inner_of(*buffer));
    std::optional<Error> failure;
    if (backend_.fails_in_ > 0 && --backend_.fails_in_ == 0) failure = std::exchange(backend_.failure_, std::nullopt);
    const auto task = [executable = inner_, inputs, outputs, failure] {
      if (failure) throw *failure;
      Bindings inside;
      for (const auto& buffer : inputs) inside.inputs.push_back(buffer.get());
      for (const auto& buffer : outputs) inside.outputs.push_back(buffer.get());
      executable->run(inside);
    };
    backend_.queue_->push_run(task);
  }
  // Both wait for the runs, but leave their error to the next call.
  std::vector<ReportLine> report() const override {
    backend_.queue_->drain();
    return inner_->report();
  }
  std::size_t workspace_bytes() const override {
    backend_.queue_->drain();
    return inner_->workspace_bytes();
  }

 private:
  std::shared_ptr<Executable> inner_;
  LateBackend& backend_;
};

LateBackend::LateBackend(std::unique_ptr<Backend> inner, Broken broken)
    : ForwardingBackend(std::move(inner)), broken_(broken), queue_(std::make_shared<LateQueue>(broken)) {}

LateBackend::~LateBackend() { queue_->drain(); }

std::unique_ptr<Buffer> LateBackend::allocate(std::size_t bytes) {
  queue_->surface();
  return std::make_unique<LateBuffer>(inner_.allocate(bytes));
}

void LateBackend::upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) {
  const auto to = inner_of(buffer);
  if (broken_ == Broken::upload_keeps_reference)
    return queue_->push_upload([this, to, offset, from] { inner_.upload(*to, offset, from); });
  queue_->push_upload([this, to, offset, copy = std::vector<std::byte>(from.begin(), from.end())] {
    inner_.upload(*to, offset, copy);
  });
}

void LateBackend::download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) {
  if (broken_ != Broken::download_overtakes) wait();
  inner_.download(*inner_of(buffer), offset, to);
}

// The inner backend need not compile and run at the same time.
std::unique_ptr<Executable> LateBackend::compile(std::shared_ptr<const Plan> plan) {
  wait();
  return std::make_unique<LateExecutable>(inner_.compile(std::move(plan)), *this);
}

void LateBackend::wait() {
  queue_->drain();
  queue_->surface();
}

void LateBackend::fail_run(int n, Error error) {
  fails_in_ = n;
  failure_ = std::move(error);
}

}  // namespace unroll::testing
