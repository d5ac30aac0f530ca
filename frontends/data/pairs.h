// SPDX-License-Identifier: Apache-2.0
// Pairs of texts: a line `source<TAB>target` each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unroll {

struct PairsLimits {
  std::size_t max_pairs = std::size_t{1} << 24;
  std::size_t max_side = std::size_t{1} << 14;  // bytes of a source, and of a target
};

struct TextPair {
  std::string source, target;
  std::size_t line = 0;  // from 1
};

// Empty lines are skipped. Throws Error(input_file) with the line on a line without exactly one tab, an empty side,
// what is not UTF-8, anything above the limits, and a file without a pair.
std::vector<TextPair> read_pairs(std::string_view text, const std::string& name, const PairsLimits& limits = {});

}  // namespace unroll
