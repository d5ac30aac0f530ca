// SPDX-License-Identifier: Apache-2.0
// The fastest measured implementation of an operation, and its text for a file beside the kernel files
// (kernel_files.h). Files are not trusted: every field is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unroll::common {

struct Candidate {
  std::string name;               // letters, digits and '_'
  std::int64_t nanoseconds = -1;  // fastest run; -1: it does not run
  bool runs() const { return nanoseconds >= 0; }
  friend bool operator==(const Candidate&, const Candidate&) = default;
};
struct Choice {
  std::vector<Candidate> candidates;  // in order of preference
  std::size_t chosen = 0;             // index of a candidate that runs
  const Candidate& best() const { return candidates[chosen]; }
  friend bool operator==(const Choice&, const Choice&) = default;
};

// The first candidate that runs is preferred. Another one must be faster by this margin, so that noise does not decide.
inline constexpr int k_margin_percent = 5;
// Returns the choice; of two candidates with equal times the first wins. Returns nullopt if none runs.
std::optional<Choice> choose(std::vector<Candidate> candidates);

inline constexpr std::size_t k_most_candidates = 16, k_longest_candidate = 160, k_longest_choice = 4096;
std::string print_choice(const Choice& choice);
// Returns nullopt if print_choice did not write the text.
std::optional<Choice> parse_choice(std::string_view text);

// "0.812 ms", or "refused"
std::string time_text(const Candidate& candidate);
// "STANDARD 0.812 ms, PERSIST_STATIC 0.401 ms; refused: PERSIST_DYNAMIC"
std::string times_text(const Choice& choice);

}  // namespace unroll::common
