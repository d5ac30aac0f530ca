// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fibers.h"

#include <csetjmp>
#include <cstddef>
#include <memory>
#include <ucontext.h>
#include <vector>

namespace unroll::shim {

namespace {

constexpr std::size_t k_stack_bytes = 256 << 10;

enum class At { start, barrier, end };

// A stack that runs one thread after the other. Contexts make it; jumps switch, since contexts cost system calls.
struct Fiber {
  std::unique_ptr<char[]> stack{new char[k_stack_bytes]};
  jmp_buf here;
  bool is_made = false;
  unsigned thread = 0;
  At at = At::start;
  void* place = nullptr;
};

struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;
  const std::function<void(unsigned)>* body = nullptr;
  const std::function<void(unsigned)>* resumes = nullptr;
  Fiber* running = nullptr;
  unsigned number = 0;
  jmp_buf scheduler;
  unsigned barriers = 0;
  std::string failure;
};
Block& block() {
  static Block state;
  return state;
}

void to_scheduler() {
  Fiber& self = *block().running;
  if (_setjmp(self.here) == 0) _longjmp(block().scheduler, 1);
}

void fiber_main() {
  for (;;) {
    Fiber& self = *block().running;
    (*block().body)(self.thread);
    self.at = At::end;
    to_scheduler();
  }
}

void resume(Fiber& fiber) {
  Block& b = block();
  b.running = &fiber;
  (*b.resumes)(fiber.thread);
  if (_setjmp(b.scheduler) != 0) return;
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

}  // namespace

std::string run_block(unsigned n, unsigned number, const std::function<void(unsigned)>& thread,
                      const std::function<void(unsigned)>& resumes, bool descending) {
  Block& b = block();
  b.number = number;
  b.resumes = &resumes;
  b.body = &thread;
  b.barriers = 0;
  b.failure.clear();
  std::size_t waiting = 0;  // the first fibers of the list
  unsigned ended = 0;
  for (unsigned k = 0; k < n && b.failure.empty(); ++k) {
    if (waiting == b.fibers.size()) b.fibers.push_back(std::make_unique<Fiber>());
    Fiber& fiber = *b.fibers[waiting];
    fiber.thread = descending ? n - 1 - k : k;
    resume(fiber);
    if (fiber.at == At::end) ++ended;
    else ++waiting;
  }
  while (waiting > 0 && b.failure.empty()) {
    if (ended > 0) b.failure = std::to_string(ended) + " threads ended while others wait at a barrier";
    for (std::size_t k = 1; k < waiting; ++k)
      if (b.fibers[k]->place != b.fibers[0]->place) b.failure = "threads of a block wait at different barriers";
    if (!b.failure.empty()) break;
    ++b.barriers;
    const bool backwards = (b.barriers % 2 == 1) != descending;
    std::size_t still = 0;
    for (std::size_t k = 0; k < waiting && b.failure.empty(); ++k) {
      Fiber& fiber = *b.fibers[backwards ? waiting - 1 - k : k];
      resume(fiber);
      if (fiber.at == At::end) ++ended;
      else ++still;
    }
    if (still != 0 && still != waiting && b.failure.empty())
      b.failure = std::to_string(waiting - still) + " threads ended while others wait at a barrier";
    waiting = still;
  }
  // Fibers that did not end cannot be used again.
  if (!b.failure.empty()) b.fibers.clear();
  b.running = nullptr;
  return b.failure;
}

void at_barrier(void* place) {
  Fiber& self = *block().running;
  self.at = At::barrier;
  self.place = place;
  to_scheduler();
}

void fail(const std::string& reason) {
  block().failure = reason;
  for (;;) to_scheduler();
}

unsigned running_block() { return block().number; }
unsigned running_thread() { return block().running->thread; }
unsigned barriers_so_far() { return block().barriers; }
bool is_on_stack(const void* address) {
  const char* const at = static_cast<const char*>(address);
  const char* const stack = block().running->stack.get();
  return at >= stack && at < stack + k_stack_bytes;
}

}  // namespace unroll::shim
