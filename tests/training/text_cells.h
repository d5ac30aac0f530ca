// SPDX-License-Identifier: Apache-2.0
// Cells of a config, as tests write them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "unroll/model/cell.h"

namespace unroll::testing {

inline TextCell cell_of(const std::string& step, std::vector<std::string> states = {"h"}, const std::string& y = "") {
  return {.name = "mine", .states = std::move(states), .step = step, .y = y};
}

}  // namespace unroll::testing
