// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/pairs.h"

#include "frontends/data/lines.h"
#include "unroll/error.h"

namespace unroll {

std::vector<TextPair> read_pairs(std::string_view text, const std::string& name, const PairsLimits& limits) {
  std::vector<TextPair> pairs;
  for_each_line(text, name, [&](std::string_view line, std::size_t number) {
    if (line.empty()) return;
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos)
      refuse_line(name, number,
                  "a source, one tab and its target are expected; got '" + std::string(line.substr(0, 40)) + "'");
    TextPair pair{std::string(line.substr(0, tab)), std::string(line.substr(tab + 1)), number};
    for (const auto& [side, what] : {std::pair(&pair.source, "source"), std::pair(&pair.target, "target")}) {
      if (side->empty()) refuse_line(name, number, "the " + std::string(what) + " is empty");
      if (side->size() > limits.max_side)
        refuse_line(name, number,
                    "the " + std::string(what) + " has more than " + std::to_string(limits.max_side) + " bytes");
    }
    if (pairs.size() == limits.max_pairs)
      refuse_line(name, number, "more than " + std::to_string(limits.max_pairs) + " pairs");
    pairs.push_back(std::move(pair));
  });
  if (pairs.empty()) throw Error(ErrorKind::input_file, name, "holds no pair of source and target");
  return pairs;
}

}  // namespace unroll
