// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/program/arena.h"

#include "unroll/support/error.h"

namespace unroll::cpu {

void SharedArena::fit() {
  const std::size_t largest = needs_.empty() ? 0 : *needs_.rbegin();
  if (taken_ || block_.size() == largest) return;
  block_ = Bytes();  // released before the new one is allocated
  block_ = Bytes(largest);
}

std::size_t SharedArena::bytes() const {
  const std::lock_guard lock(mutex_);
  return block_.size();
}

SharedArena::Share::Share(std::shared_ptr<SharedArena> arena, std::size_t bytes) : arena_(std::move(arena)) {
  const std::lock_guard lock(arena_->mutex_);
  need_ = arena_->needs_.insert(bytes);
  try {
    arena_->fit();
  } catch (...) {
    arena_->needs_.erase(need_);
    throw;
  }
}

SharedArena::Share::~Share() {
  const std::lock_guard lock(arena_->mutex_);
  arena_->needs_.erase(need_);
  const bool smaller = arena_->needs_.empty() || *arena_->needs_.rbegin() < arena_->block_.size();
  if (smaller && !arena_->taken_) arena_->block_ = Bytes();  // the next run allocates the remaining size
}

SharedArena::Turn::Turn(SharedArena& arena) : arena_(arena) {
  const std::lock_guard lock(arena_.mutex_);
  if (arena_.taken_)
    throw Error(ErrorKind::usage, "cpu",
                "two programs of one backend run at once; they share its threads and its memory",
                "Make a backend for each thread, or plan with one_thread");
  arena_.fit();  // the arena was in use, or memory was short, when a need changed
  arena_.taken_ = true;
}

SharedArena::Turn::~Turn() {
  const std::lock_guard lock(arena_.mutex_);
  arena_.taken_ = false;
}

}  // namespace unroll::cpu
