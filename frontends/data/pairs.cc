// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/pairs.h"

#include "unroll/error.h"

namespace unroll {

namespace {

TextPair pair_of(const Line& line, const std::string& name, const PairsLimits& limits) {
  require_utf8(line, name);
  const std::size_t tab = line.text.find('\t');
  if (tab == std::string_view::npos || line.text.find('\t', tab + 1) != std::string_view::npos)
    refuse_line(name, line.number,
                "a source, one tab and its target are expected; got '" + std::string(line.text.substr(0, 40)) + "'");
  TextPair pair{std::string(line.text.substr(0, tab)), std::string(line.text.substr(tab + 1)), line.number};
  for (const auto& [side, what] : {std::pair(&pair.source, "source"), std::pair(&pair.target, "target")}) {
    if (side->empty()) refuse_line(name, line.number, "the " + std::string(what) + " is empty");
    if (side->size() > limits.max_side)
      refuse_line(name, line.number,
                  "the " + std::string(what) + " has more than " + std::to_string(limits.max_side) + " bytes");
  }
  return pair;
}

void for_each_pair(const Lines& lines, const std::string& name, const PairsLimits& limits,
                   const std::function<void(TextPair pair, std::size_t at)>& take) {
  std::size_t n = 0;
  lines([&](const Line& line) {
    if (line.text.empty()) return;
    TextPair pair = pair_of(line, name, limits);
    if (++n > limits.max_pairs)
      refuse_line(name, line.number, "more than " + std::to_string(limits.max_pairs) + " pairs");
    take(std::move(pair), line.at);
  });
  if (n == 0) throw Error(ErrorKind::input_file, name, "holds no pair of source and target");
}

}  // namespace

std::vector<TextPair> read_pairs(std::string_view text, const std::string& name, const PairsLimits& limits) {
  std::vector<TextPair> pairs;
  for_each_pair(lines_of(text), name, limits, [&](TextPair pair, std::size_t) { pairs.push_back(std::move(pair)); });
  return pairs;
}

void index_pairs(RecordFile& file, const PairsLimits& limits) {
  for_each_pair(file.lines(), file.name(), limits, [&](const TextPair&, std::size_t at) { file.add(at); });
}

TextPair pair_in(const RecordFile& file, std::string_view record) {
  const std::string_view line = first_line(record);
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos) file.refuse_changed();
  return {std::string(line.substr(0, tab)), std::string(line.substr(tab + 1)), 0};
}

}  // namespace unroll
