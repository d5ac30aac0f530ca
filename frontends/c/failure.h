// SPDX-License-Identifier: Apache-2.0
// Converts exceptions to codes at the C boundary, with a message stored per thread.
#pragma once

#include <stdexcept>
#include <string>

#include "unroll/support/error.h"

namespace unroll::c {

// Another thread is using the object.
struct Busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Stores the current exception for unroll_last_error. Returns its code.
int keep_failure() noexcept;

// Calls `body`. Returns 0, or the code of its exception.
template <class Body>
int guarded(const Body& body) noexcept {
  try {
    body();
    return 0;
  } catch (...) {
    return keep_failure();
  }
}

// Throws Error(usage) on a null argument.
inline void require(const void* argument, const char* name) {
  if (!argument) throw Error(ErrorKind::usage, "unroll", std::string("'") + name + "' is NULL", "Pass an address");
}

}  // namespace unroll::c
