// SPDX-License-Identifier: Apache-2.0
// A thread pool on oneDNN's OpenMP runtime: a second set of threads would compete with it for the cores.
#pragma once

#include <memory>
#include <type_traits>

#include "backends/cpu/threads/thread_pool.h"

namespace unroll::onednn {

// As cpu::ThreadPool.
class ThreadPool {
 public:
  explicit ThreadPool(int n);
  int size() const { return n_; }
  template <class F>
  void run(F&& f) {
    run_erased([](void* g, const cpu::Worker& worker) { (*static_cast<std::remove_reference_t<F>*>(g))(worker); },
               const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  void run_erased(cpu::SharedRun::Call call, void* argument);

  const int n_;
  cpu::SharedRun shared_run_;
  std::unique_ptr<cpu::ThreadPool> own_;  // if oneDNN uses other threads
};

}  // namespace unroll::onednn
