// SPDX-License-Identifier: Apache-2.0
// Vocabularies of texts: words, labels. The ids are part of a trained model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace unroll {

// Distinct texts with the ids 0 .. size() - 1.
class Lexicon {
 public:
  static constexpr std::size_t k_max_entries = std::size_t{1} << 20;
  using Counts = std::map<std::string, std::int64_t, std::less<>>;

  // Selects at most `most` texts with counts of at least `least`: the most frequent first, ties in byte order.
  static Lexicon of(const Counts& counts, std::int64_t least, std::size_t most);
  // Reads lines() from model metadata. Throws Error(input_file) on a repeated entry and above k_max_entries.
  static Lexicon from_lines(std::string_view lines, const std::string& name);
  std::string lines() const;  // see entry_lines

  std::int64_t size() const { return std::ssize(entries_); }
  // Returns the id of a text, or size() if it is unknown.
  std::int32_t id(std::string_view text) const;
  const std::string& text(std::int32_t id) const { return entries_[id]; }

 private:
  bool add(std::string entry);

  std::vector<std::string> entries_;
  std::map<std::string, std::int32_t, std::less<>> ids_;
};

}  // namespace unroll
