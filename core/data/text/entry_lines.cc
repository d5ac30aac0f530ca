// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/entry_lines.h"

#include <utility>

namespace unroll {

std::string entry_lines(std::span<const std::string> entries) {
  std::string text;
  for (const std::string& entry : entries) {
    for (const char c : entry) {
      if (c == '\n') text += "\\n";
      else if (c == '\\') text += "\\\\";
      else text += c;
    }
    text += '\n';
  }
  return text;
}

void for_each_entry(std::string_view lines, const std::function<void(std::string)>& visit) {
  std::string entry;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    if (lines[at] == '\n') visit(std::exchange(entry, {}));
    else if (lines[at] == '\\' && at + 1 < lines.size()) entry += lines[++at] == 'n' ? '\n' : lines[at];
    else entry += lines[at];
  }
  if (!entry.empty()) visit(std::move(entry));
}

std::vector<std::string> entries_of(std::string_view lines) {
  std::vector<std::string> entries;
  for_each_entry(lines, [&](std::string entry) { entries.push_back(std::move(entry)); });
  return entries;
}

}  // namespace unroll
