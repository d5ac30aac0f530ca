// SPDX-License-Identifier: Apache-2.0
// Fuzzed bytes as a file of records that is read in parts.
#pragma once

#include <memory>
#include <string_view>

#include "core/data/batch/records.h"
#include "core/data/file/held_text.h"

namespace unroll::testing {

inline RecordFile read_in_parts(std::string_view text) {
  return {std::make_shared<HeldText>(text), "fuzz", /*memory_limit=*/1};
}

}  // namespace unroll::testing
