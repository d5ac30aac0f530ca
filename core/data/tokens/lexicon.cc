// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/lexicon.h"

#include <algorithm>

#include "core/data/text/entry_lines.h"
#include "unroll/support/error.h"

namespace unroll {

Lexicon Lexicon::of(const Counts& counts, std::int64_t least, std::size_t most) {
  std::vector<Counts::const_iterator> kept;
  for (auto at = counts.begin(); at != counts.end(); ++at)
    if (at->second >= least) kept.push_back(at);
  std::stable_sort(kept.begin(), kept.end(), [](auto a, auto b) { return a->second > b->second; });
  kept.resize(std::min({kept.size(), most, k_max_entries}));
  Lexicon lexicon;
  for (const auto& entry : kept) lexicon.add(entry->first);
  return lexicon;
}

bool Lexicon::add(std::string entry) {
  const auto id = static_cast<std::int32_t>(entries_.size());
  if (!ids_.emplace(entry, id).second) return false;
  entries_.push_back(std::move(entry));
  return true;
}

Lexicon Lexicon::from_lines(std::string_view lines, const std::string& name) {
  Lexicon lexicon;
  for_each_entry(lines, [&](std::string entry) {
    if (lexicon.entries_.size() == k_max_entries)
      throw Error(ErrorKind::input_file, name,
                  "the vocabulary has more than " + std::to_string(k_max_entries) + " entries");
    if (!lexicon.add(std::move(entry)))
      throw Error(ErrorKind::input_file, name,
                  "the vocabulary has entry " + std::to_string(lexicon.entries_.size() + 1) + " twice");
  });
  return lexicon;
}

std::string Lexicon::lines() const { return entry_lines(entries_); }

std::int32_t Lexicon::id(std::string_view text) const {
  const auto at = ids_.find(text);
  return at == ids_.end() ? static_cast<std::int32_t>(size()) : at->second;
}

}  // namespace unroll
