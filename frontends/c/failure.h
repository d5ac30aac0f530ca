// SPDX-License-Identifier: Apache-2.0
// Exceptions become codes at the C boundary, and a message that the thread keeps.
#pragma once

#include <stdexcept>
#include <string>

#include "unroll/support/error.h"

namespace unroll::c {

// Another thread is using the object.
struct Busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Keeps the exception that is being handled for unroll_last_error. Returns its code.
int keep_failure() noexcept;

// Calls `body`. 0, or the code of what it threw.
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
