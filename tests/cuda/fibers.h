// SPDX-License-Identifier: Apache-2.0
// The threads of a block on one thread of the host: each runs until it reaches a barrier, in an order that changes from
// barrier to barrier.
#pragma once

#include <functional>
#include <string>

namespace unroll::shim {

// Calls `thread(t)` for t in 0 .. n-1. Empty, or why the block cannot end: threads at different barriers, or at one
// that others have left the kernel without reaching.
// `resumes(t)` is called whenever thread t goes on.
std::string run_block(unsigned n, unsigned block, const std::function<void(unsigned)>& thread,
                      const std::function<void(unsigned)>& resumes, bool descending);
// Called by a running thread: returns when all threads of the block are here. `place` tells barriers apart.
void at_barrier(void* place);
// Called by a running thread: ends all threads of the block, with this reason.
[[noreturn]] void fail(const std::string& reason);

unsigned running_thread();
unsigned running_block();
unsigned barriers_so_far();           // of the block
bool is_on_stack(const void* address);  // of the running thread

}  // namespace unroll::shim
