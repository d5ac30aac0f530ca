// SPDX-License-Identifier: Apache-2.0
// Available memory without swapping, and memory held by this process.
#pragma once

#include <cstddef>

#include "unroll/support/export.h"

namespace unroll {

// Returns the available bytes: of the machine, at most the rest of the process's control group; 0 if unknown.
UNROLL_API std::size_t free_memory();
// Return the bytes that the process holds now, and its peak; 0 if unknown.
UNROLL_API std::size_t resident_memory();
UNROLL_API std::size_t peak_resident_memory();

}  // namespace unroll
