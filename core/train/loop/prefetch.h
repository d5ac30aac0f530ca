// SPDX-License-Identifier: Apache-2.0
// Prepares the batches of the next updates while the current one runs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/support/process/forked.h"
#include "unroll/train/trainer.h"

namespace unroll {

class Prefetch {
 public:
  using Make = std::function<std::vector<Batch>(std::int64_t update)>;
  // At most `depth` updates wait, none beyond `last`; with depth 0 all is made in take(). `make` is called in order, in
  // another thread.
  Prefetch(Make make, int depth, std::int64_t last);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // The batches of an update; throws what `make` threw for it. Another update than the next one drops what waits.
  std::vector<Batch> take(std::int64_t update);
  double seconds_waited() const { return waited_; }  // in take()

 private:
  struct Made {
    std::vector<Batch> batches;
    std::exception_ptr error;
  };
  // Shared by take() and the thread.
  struct Ahead {
    std::mutex mutex;  // of all below
    std::condition_variable changed;
    std::deque<Made> ready;     // of `expected`, expected + 1, ...
    std::int64_t expected = 0;  // what take() is thought to ask for next; 0: nothing yet
    std::int64_t next = 0;      // what is made next
    std::int64_t round = 0;     // grows where what waits is dropped
    bool stop = false;
    std::thread thread;
  };
  void work();
  Made made(std::int64_t update) const;

  Make make_;
  int depth_;
  std::int64_t last_;
  double waited_ = 0;
  const OfThisProcess process_;
  std::unique_ptr<Ahead> ahead_;  // null with depth 0
};

}  // namespace unroll
