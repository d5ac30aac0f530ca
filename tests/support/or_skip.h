// SPDX-License-Identifier: Apache-2.0
// Tests of a device skip where there is none.
#pragma once

#include <cstdio>

#include "unroll/support/error.h"

namespace unroll::testing {

// The pointer that `open` returns. Without a device it is null, and a line says why.
template <class Open>
auto or_skip(const Open& open) -> decltype(open()) {
  try {
    return open();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    std::printf("skipped: %s\n", error.what());
    return nullptr;
  }
}

}  // namespace unroll::testing
