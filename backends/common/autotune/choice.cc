// SPDX-License-Identifier: Apache-2.0
#include "backends/common/autotune/choice.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/support/text/exact_text.h"

namespace unroll::common {

namespace {

constexpr std::string_view k_first_line = "choice 1\n", k_refused = "refused";

bool is_name(std::string_view text) {
  constexpr std::string_view k_letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !text.empty() && text.size() <= k_longest_candidate &&
         text.find_first_not_of(k_letters) == std::string_view::npos;
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// Returns the text before `mark` and removes both from `text`. Without `mark`: returns an empty view, no change.
std::string_view taken(std::string_view& text, char mark) {
  const std::size_t end = text.find(mark);
  if (end == std::string_view::npos) return {};
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end + 1);
  return part;
}

}  // namespace

std::optional<Choice> choose(std::vector<Candidate> candidates) {
  const auto runs = [](const Candidate& candidate) { return candidate.runs(); };
  const auto first = std::find_if(candidates.begin(), candidates.end(), runs);
  if (first == candidates.end()) return std::nullopt;
  auto best = first;
  for (auto at = first; at != candidates.end(); ++at)
    if (at->runs() && at->nanoseconds < best->nanoseconds) best = at;
  const auto scaled = [](std::int64_t nanoseconds, int percent) { return static_cast<double>(nanoseconds) * percent; };
  if (scaled(best->nanoseconds, 100) > scaled(first->nanoseconds, 100 - k_margin_percent)) best = first;
  const std::size_t chosen = best - candidates.begin();
  return Choice{std::move(candidates), chosen};
}

// One line per candidate: chosen or not, name, nanoseconds.
std::string print_choice(const Choice& choice) {
  std::string text(k_first_line);
  for (std::size_t k = 0; k < choice.candidates.size(); ++k) {
    const Candidate& candidate = choice.candidates[k];
    text += std::string(k == choice.chosen ? "+ " : "- ") + candidate.name + ' ' +
            (candidate.runs() ? std::to_string(candidate.nanoseconds) : std::string(k_refused)) + '\n';
  }
  return text;
}

std::optional<Choice> parse_choice(std::string_view text) {
  if (text.size() > k_longest_choice || !text.starts_with(k_first_line)) return std::nullopt;
  std::string_view rest = text.substr(k_first_line.size());
  Choice choice;
  bool has_chosen = false;
  while (!rest.empty()) {
    std::string_view line = taken(rest, '\n');
    const std::string_view mark = taken(line, ' '), name = taken(line, ' ');
    if ((mark != "+" && mark != "-") || !is_name(name) || choice.candidates.size() == k_most_candidates)
      return std::nullopt;
    const std::optional<std::int64_t> nanoseconds = line == k_refused ? -1 : number_of(line);
    if (!nanoseconds || (mark == "+" && (has_chosen || *nanoseconds < 0))) return std::nullopt;
    if (mark == "+") choice.chosen = choice.candidates.size(), has_chosen = true;
    choice.candidates.push_back({std::string(name), *nanoseconds});
  }
  if (!has_chosen || print_choice(choice) != text) return std::nullopt;
  return choice;
}

std::string time_text(const Candidate& candidate) {
  return candidate.runs() ? fixed_text(static_cast<double>(candidate.nanoseconds) / 1e6, 3) + " ms"
                          : std::string(k_refused);
}

std::string times_text(const Choice& choice) {
  std::string times, refused;
  for (const Candidate& candidate : choice.candidates) {
    std::string& list = candidate.runs() ? times : refused;
    list += (list.empty() ? "" : ", ") + candidate.name;
    if (candidate.runs()) list += ' ' + time_text(candidate);
  }
  return times + (refused.empty() ? "" : "; refused: " + refused);
}

}  // namespace unroll::common
