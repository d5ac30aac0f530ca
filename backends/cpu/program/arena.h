// SPDX-License-Identifier: Apache-2.0
// One arena for all executables of a backend that take turns on its thread pool, sized for the largest.
#pragma once

#include <memory>
#include <mutex>
#include <set>

#include "unroll/support/tensor.h"

namespace unroll::cpu {

class SharedArena {
 public:
  // The arena size that one executable needs during its lifetime. It may outlive the backend.
  class Share {
   public:
    // Makes the arena large enough. Throws Error(memory).
    Share(std::shared_ptr<SharedArena> arena, std::size_t bytes);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    SharedArena& arena() const { return *arena_; }

   private:
    std::shared_ptr<SharedArena> arena_;
    std::multiset<std::size_t>::iterator need_;
  };
  // The memory of a run, with undefined contents. Throws Error(usage) while another run uses it.
  class Turn {
   public:
    explicit Turn(SharedArena& arena);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    std::byte* data() const { return arena_.block_.data(); }

   private:
    SharedArena& arena_;
  };
  std::size_t bytes() const;

 private:
  void fit();  // resizes to the largest need, unless in use

  mutable std::mutex mutex_;
  std::multiset<std::size_t> needs_;
  bool taken_ = false;
  Bytes block_;
};

}  // namespace unroll::cpu
