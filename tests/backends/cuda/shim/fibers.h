// SPDX-License-Identifier: Apache-2.0
// The threads of blocks on one thread of the host: each runs until it reaches a barrier, in an order that changes from
// barrier to barrier. Blocks run one after the other; those of a cooperative launch in turn, each until it waits for
// the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace unroll::shim {

// Calls `thread(t)` for t in 0 .. n-1 of each block. Empty, or why they cannot end: threads at different barriers, or
// at one that others have left the kernel without reaching, or blocks that wait for each other.
// `resumes(block, t)` is called whenever thread t goes on.
std::string run_blocks(unsigned n, const std::vector<unsigned>& blocks, const std::function<void(unsigned)>& thread,
                       const std::function<void(unsigned, unsigned)>& resumes, bool descending);
// Called by a running thread: returns when all threads of the block are here. `place` tells barriers apart.
void at_barrier(void* place);
// Called by a running thread: other threads run before it goes on.
void yield();
// Called by a running thread: returns when all threads of its warp that have not ended are here.
void meet();
// Called by a running thread: its block is one more that has arrived at a barrier of blocks. `completes`: the last one,
// so that they have all seen what the others did before.
void arrive(const void* barrier, bool completes);
// Called by a running thread: ends all threads of the block, with this reason.
[[noreturn]] void fail(const std::string& reason);

// Whether all threads of the block have begun and none has ended.
bool is_running(unsigned block);
unsigned running_thread();
unsigned running_block();
unsigned barriers_so_far();           // of the block
// Counts barriers of blocks: what the running block does now, and what it has seen of another one.
unsigned epoch();
unsigned seen_of(unsigned block);
unsigned last_epoch();                // of the last run_blocks
bool is_on_stack(const void* address);  // of the running thread

}  // namespace unroll::shim
