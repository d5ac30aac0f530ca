// SPDX-License-Identifier: Apache-2.0
// Which of several implementations of one operation was measured as the fastest, and its text in a file beside those of
// kernels (kernel_files.h). What is read is not trusted.
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
  std::int64_t nanoseconds = -1;  // of the fastest run; -1: it does not run
  bool runs() const { return nanoseconds >= 0; }
  friend bool operator==(const Candidate&, const Candidate&) = default;
};
struct Choice {
  std::vector<Candidate> candidates;  // in the order of preference
  std::size_t chosen = 0;             // one that runs
  const Candidate& best() const { return candidates[chosen]; }
  friend bool operator==(const Choice&, const Choice&) = default;
};

// The first candidate that runs is preferred: another one must be this much faster, so that noise does not choose.
inline constexpr int k_margin_percent = 5;
// Of two candidates with equal times the first is chosen. Empty: none runs.
std::optional<Choice> choose(std::vector<Candidate> candidates);

inline constexpr std::size_t k_most_candidates = 16, k_longest_candidate = 160, k_longest_choice = 4096;
std::string print_choice(const Choice& choice);
// Empty: the text is not what print_choice writes.
std::optional<Choice> parse_choice(std::string_view text);

// "0.812 ms", or "refused"
std::string time_text(const Candidate& candidate);
// "STANDARD 0.812 ms, PERSIST_STATIC 0.401 ms; refused: PERSIST_DYNAMIC"
std::string times_text(const Choice& choice);

}  // namespace unroll::common
