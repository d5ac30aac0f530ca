// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/shim/fibers.h"

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <map>
#include <memory>
#include <ucontext.h>

namespace unroll::shim {

namespace {

constexpr std::size_t k_stack_bytes = 256 << 10;
constexpr int k_most_rounds = 1000;  // in which all blocks only wait

constexpr unsigned k_warp = 32;

enum class At { start, barrier, warp, yield, end };

// A stack that runs one thread after the other. Contexts make it; jumps switch, since contexts cost system calls.
struct Fiber {
  std::unique_ptr<char[]> stack{new char[k_stack_bytes]};
  jmp_buf here;
  bool is_made = false;
  unsigned thread = 0, meetings = 0;
  At at = At::start;
  void* place = nullptr;
};

struct Block {
  std::vector<Fiber*> fibers = {};  // of threads that have not ended, in the order in which they started
  unsigned number = 0;
  unsigned barriers = 0, arrivals = 0, ended = 0;
  unsigned epoch = 0;
  std::map<unsigned, unsigned> seen = {};  // [block] epochs below are over
  struct Warp {
    unsigned threads = 0, waiting = 0, meetings = 0;
  };
  std::vector<Warp> warps = {};
};

struct Scheduler {
  std::vector<std::unique_ptr<Fiber>> fibers;  // kept from launch to launch
  const std::function<void(unsigned)>* body = nullptr;
  const std::function<void(unsigned, unsigned)>* resumes = nullptr;
  const std::vector<Block>* blocks = nullptr;  // that run in turn
  Block* block = nullptr;  // that runs
  Fiber* running = nullptr;
  unsigned last_epoch = 0;
  std::map<const void*, std::vector<Block*>> arrived;  // at barriers that are not complete
  jmp_buf here;
  std::string failure;
};
Scheduler& scheduler() {
  static Scheduler state;
  return state;
}

void to_scheduler() {
  Fiber& self = *scheduler().running;
  if (_setjmp(self.here) == 0) _longjmp(scheduler().here, 1);
}

void fiber_main() {
  for (;;) {
    Fiber& self = *scheduler().running;
    (*scheduler().body)(self.thread);
    self.at = At::end;
    to_scheduler();
  }
}

void resume(Fiber& fiber) {
  Scheduler& s = scheduler();
  s.running = &fiber;
  (*s.resumes)(s.block->number, fiber.thread);
  if (_setjmp(s.here) != 0) return;
  if (fiber.is_made) _longjmp(fiber.here, 1);
  fiber.is_made = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = k_stack_bytes;
  context.uc_link = nullptr;
  makecontext(&context, fiber_main, 0);
  setcontext(&context);
}

// Threads that are not at a barrier go on; if all are at one, all do. Whether more than waiting for others was done.
bool round(Block& block, bool descending) {
  Scheduler& s = scheduler();
  s.block = &block;
  auto& fibers = block.fibers;
  const bool waits = std::all_of(fibers.begin(), fibers.end(), [](const Fiber* f) { return f->at == At::barrier; });
  if (waits) {
    if (block.ended > 0) s.failure = std::to_string(block.ended) + " threads ended while others wait at a barrier";
    for (const Fiber* fiber : fibers)
      if (fiber->place != fibers[0]->place) s.failure = "threads of a block wait at different barriers";
    if (!s.failure.empty()) return false;
    ++block.barriers;
  }
  const unsigned arrivals = block.arrivals;
  bool moves = waits;
  const bool backwards = waits && (block.barriers % 2 == 1) != descending;
  for (std::size_t k = 0; k < fibers.size() && s.failure.empty(); ++k) {
    Fiber& fiber = *fibers[backwards ? fibers.size() - 1 - k : k];
    const At before = fiber.at;
    if (!waits && before == At::barrier) continue;
    if (before == At::warp && fiber.meetings == block.warps[fiber.thread / k_warp].meetings) continue;
    resume(fiber);
    moves = moves || before != At::yield || fiber.at != At::yield;
  }
  block.ended += static_cast<unsigned>(std::erase_if(fibers, [](const Fiber* f) { return f->at == At::end; }));
  return moves || block.arrivals != arrivals;
}

bool yields(const Block& block) {
  return std::any_of(block.fibers.begin(), block.fibers.end(), [](const Fiber* f) { return f->at == At::yield; });
}

}  // namespace

std::string run_blocks(unsigned n, const std::vector<unsigned>& numbers, const std::function<void(unsigned)>& thread,
                       const std::function<void(unsigned, unsigned)>& resumes, bool descending) {
  Scheduler& s = scheduler();
  s.body = &thread;
  s.resumes = &resumes;
  s.failure.clear();
  while (s.fibers.size() < n * numbers.size()) s.fibers.push_back(std::make_unique<Fiber>());
  std::vector<Block> blocks;
  blocks.reserve(numbers.size());
  s.blocks = &blocks;
  std::size_t used = 0;
  for (const unsigned number : numbers) {
    Block& block = blocks.emplace_back(Block{.number = number});
    block.warps.resize((n + k_warp - 1) / k_warp);
    for (unsigned k = 0; k < n; ++k) {
      ++block.warps[k / k_warp].threads;
      Fiber& fiber = *s.fibers[used++];
      fiber.thread = descending ? n - 1 - k : k;
      fiber.at = At::start;
      block.fibers.push_back(&fiber);
    }
  }
  int waiting = 0;
  for (bool left = true; left && s.failure.empty();) {
    left = false;
    bool moved = false;
    for (Block& block : blocks) {
      while (!block.fibers.empty() && s.failure.empty()) {
        const bool did = round(block, descending);
        moved = did || moved;
        if (!did || yields(block)) break;  // for other blocks
      }
      left = left || !block.fibers.empty();
    }
    waiting = moved ? 0 : waiting + 1;
    if (waiting > k_most_rounds) s.failure = "blocks wait for each other";
  }
  // Fibers that did not end cannot be used again.
  if (!s.failure.empty()) s.fibers.clear();
  s.running = nullptr;
  s.block = nullptr;
  s.blocks = nullptr;
  s.arrived.clear();
  s.last_epoch = 0;
  for (const Block& block : blocks) s.last_epoch = std::max(s.last_epoch, block.epoch);
  return s.failure;
}

void at_barrier(void* place) {
  Fiber& self = *scheduler().running;
  self.at = At::barrier;
  self.place = place;
  to_scheduler();
}

void meet() {
  Fiber& self = *scheduler().running;
  Block::Warp& warp = scheduler().block->warps[self.thread / k_warp];
  if (++warp.waiting == warp.threads) {
    warp.waiting = 0;
    ++warp.meetings;
    return;
  }
  self.meetings = warp.meetings;
  self.at = At::warp;
  to_scheduler();
}

void yield() {
  scheduler().running->at = At::yield;
  to_scheduler();
}

void arrive(const void* barrier, bool completes) {
  Scheduler& s = scheduler();
  ++s.block->arrivals;
  std::vector<Block*>& here = s.arrived[barrier];
  here.push_back(s.block);
  if (!completes) return;
  std::map<unsigned, unsigned> seen;
  unsigned epoch = 0;
  for (const Block* block : here) {
    epoch = std::max(epoch, block->epoch + 1);
    for (const auto& [other, below] : block->seen) seen[other] = std::max(seen[other], below);
  }
  for (const Block* block : here) seen[block->number] = epoch;
  for (Block* block : here) block->seen = seen, block->epoch = epoch;
  s.arrived.erase(barrier);
}

void fail(const std::string& reason) {
  scheduler().failure = reason;
  for (;;) to_scheduler();
}

bool is_running(unsigned number) {
  const std::vector<Block>& all = *scheduler().blocks;
  const auto is_it = [&](const Block& block) { return block.number == number; };
  const auto block = std::find_if(all.begin(), all.end(), is_it);
  const auto begun = [](const Fiber* fiber) { return fiber->at != At::start; };
  return block != all.end() && block->ended == 0 && std::all_of(block->fibers.begin(), block->fibers.end(), begun);
}
unsigned running_block() { return scheduler().block->number; }
unsigned running_thread() { return scheduler().running->thread; }
unsigned barriers_so_far() { return scheduler().block->barriers; }
unsigned epoch() { return scheduler().block->epoch; }
unsigned seen_of(unsigned block) {
  const auto& seen = scheduler().block->seen;
  const auto found = seen.find(block);
  return found == seen.end() ? 0 : found->second;
}
unsigned last_epoch() { return scheduler().last_epoch; }
bool is_on_stack(const void* address) {
  const char* const at = static_cast<const char*>(address);
  const char* const stack = scheduler().running->stack.get();
  return at >= stack && at < stack + k_stack_bytes;
}

}  // namespace unroll::shim
