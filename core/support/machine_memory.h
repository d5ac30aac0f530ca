// SPDX-License-Identifier: Apache-2.0
// The memory that this process may still allocate without swapping, and the memory that it holds.
#pragma once

#include <cstddef>

#include "unroll/support/export.h"

namespace unroll {

// Bytes that the machine says are available, at most what the process's control group has left; 0 where nobody says so.
UNROLL_API std::size_t free_memory();
// Bytes that the process holds now, and came to hold at most; 0 where nobody says so.
UNROLL_API std::size_t resident_memory();
UNROLL_API std::size_t peak_resident_memory();

}  // namespace unroll
