// SPDX-License-Identifier: Apache-2.0
// What cuda reports of the loops of a program.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/text.h"
#include "unroll/passes/run.h"

namespace unroll::testing {

// In order: "steps of 2 launches, weights resident in ...".
inline std::vector<std::string> loops_of(const Program& program) {
  std::vector<std::string> loops;
  for (const ReportLine& line : program.executable().report())
    if (contains(line.implementation, "steps of")) loops.push_back(line.implementation);
  return loops;
}

// "..., 12 operands ...": 12 before " operands".
inline int number_before(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return std::stoi(text.substr(text.rfind(' ', at - 1) + 1));
}

inline bool is_shim(const Backend& backend) { return contains(backend.describe().device, "shim"); }

}  // namespace unroll::testing
