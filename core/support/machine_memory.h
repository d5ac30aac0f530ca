// SPDX-License-Identifier: Apache-2.0
// What this process may still allocate without swapping, and what it holds.
#pragma once

#include <cstddef>

namespace unroll {

// Bytes that the machine says are available, at most what the process's control group has left; 0 where nobody says so.
std::size_t free_memory();

}  // namespace unroll
