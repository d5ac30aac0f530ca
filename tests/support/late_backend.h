// SPDX-License-Identifier: Apache-2.0
// Another backend that does everything as late as the contract of unroll/passes/backend.h allows, on a thread of its
// own: what is uploaded and run waits in a queue until a download, wait() or compile() needs it.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "core/passes/forwarding_backend.h"
#include "unroll/support/error.h"

namespace unroll::testing {

// The guarantee that a late backend breaks, so that tests show who relies on it.
enum class Broken {
  none,
  upload_keeps_reference,  // an upload reads the caller's memory when its turn comes
  upload_overtakes,        // an upload does not wait for earlier runs
  download_overtakes,      // a download gives what is there before earlier runs
  runs_swap,               // a run overtakes the run before it
  loses_errors,            // the error of a run surfaces nowhere
};

// Work in order, done by one thread. It starts when more than k_waiting tasks wait or somebody drains the queue.
class LateQueue {
 public:
  static constexpr std::size_t k_waiting = 3;

  explicit LateQueue(Broken broken);
  ~LateQueue();
  // Throw the error of earlier work.
  void push_upload(std::function<void()> work);
  void push_run(std::function<void()> work);
  void drain();    // until all is done
  void surface();  // throws the error of earlier work once; the queue goes on after that

 private:
  struct Task {
    std::function<void()> work;
    bool is_run;
  };
  using Tasks = std::deque<Task>;
  void work();
  bool may_start() const { return !tasks_.empty() && (draining_ > 0 || stop_ || tasks_.size() > most_waiting_); }

  const Broken broken_;
  const std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Tasks tasks_;
  bool busy_ = false, stop_ = false;
  int draining_ = 0;
  std::exception_ptr error_;  // what waited behind the failed task is dropped
  std::thread thread_;
};

class LateBackend final : public ForwardingBackend {
 public:
  explicit LateBackend(std::unique_ptr<Backend> inner, Broken broken = Broken::none);
  ~LateBackend() override;

  std::unique_ptr<Buffer> allocate(std::size_t bytes) override;
  void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) override;
  void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) override;
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override;
  void wait() override;

  // The n-th run that is asked for from now on (1: the next) fails with this error instead.
  void fail_run(int n, Error error);

 private:
  class LateExecutable;
  Broken broken_;
  std::shared_ptr<LateQueue> queue_;
  int fails_in_ = 0;
  std::optional<Error> failure_;
};

}  // namespace unroll::testing
