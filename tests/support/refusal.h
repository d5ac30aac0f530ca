// SPDX-License-Identifier: Apache-2.0
// Errors that a test expects.
#pragma once

#include <functional>
#include <string>

#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll::testing {

// The text of the error that the call ends with.
inline std::string refusal(const std::function<void()>& call) {
  const Result<void> done = attempt(call);
  return done.ok() ? "nothing was refused" : done.error().what();
}

}  // namespace unroll::testing
