// SPDX-License-Identifier: Apache-2.0
// The threads of this backend are those of oneDNN's OpenMP runtime: a second set would spin against them for the cores.
#pragma once

#include <memory>
#include <type_traits>

#include "backends/cpu/threads/thread_pool.h"

namespace unroll::onednn {

// As cpu::Team.
class Team {
 public:
  explicit Team(int n);
  int size() const { return n_; }
  template <class F>
  void run(F&& f) {
    run_erased([](void* g, const cpu::Part& part) { (*static_cast<std::remove_reference_t<F>*>(g))(part); },
               const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  void run_erased(cpu::Lockstep::Call call, void* argument);

  const int n_;
  cpu::Lockstep lockstep_;
  std::unique_ptr<cpu::Team> own_;  // when oneDNN's threads are of another kind
};

}  // namespace unroll::onednn
