// SPDX-License-Identifier: Apache-2.0
// Pairs of texts: a line `source<TAB>target` each.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/data/lines.h"
#include "frontends/data/records.h"

namespace unroll {

struct PairsLimits {
  std::size_t max_pairs = std::size_t{1} << 32;
  std::size_t max_side = std::size_t{1} << 14;  // bytes of a source, and of a target
};

struct TextPair {
  std::string source, target;
  std::size_t line = 0;  // from 1
};

// Empty lines are skipped. Throws Error(input_file) with the line on a line without exactly one tab, an empty side,
// what is not UTF-8, anything above the limits, and a file without a pair.
std::vector<TextPair> read_pairs(std::string_view text, const std::string& name, const PairsLimits& limits = {});
// The same of a file, of which each pair becomes a record.
void index_pairs(RecordFile& file, const PairsLimits& limits = {});
// A record of such a file.
TextPair pair_in(const RecordFile& file, std::string_view record);

}  // namespace unroll
