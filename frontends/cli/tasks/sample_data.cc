// SPDX-License-Identifier: Apache-2.0
// Every value is a pure function of its index, so the files are the same everywhere.
#include "frontends/cli/tasks/sample_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numbers>
#include <string_view>

namespace unroll::cli {
namespace {

// SplitMix64 (Steele et al. 2014) of a counter.
std::uint64_t mixed(std::uint64_t n) {
  n = (n + 1) * 0x9e3779b97f4a7c15u;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9u;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebu;
  return n ^ (n >> 31);
}

template <std::size_t N>
std::string_view pick(const std::array<std::string_view, N>& words, std::uint64_t n) {
  return words[mixed(n) % N];
}

// Sentence i of a small grammar: who, does, what, when.
std::array<std::string_view, 4> sentence(std::uint64_t i) {
  constexpr std::array<std::string_view, 6> who{"the farmer", "a sailor", "the old king",
                                                "my sister",  "the wind", "a small bird"};
  constexpr std::array<std::string_view, 6> does{"sees", "follows", "remembers", "carries", "waits for", "sings to"};
  constexpr std::array<std::string_view, 6> what{"the river",     "a lamp",     "the morning",
                                                 "the long road", "a red door", "the sea"};
  constexpr std::array<std::string_view, 4> when{"today", "at night", "in the spring", "again"};
  return {pick(who, 4 * i), pick(does, 4 * i + 1), pick(what, 4 * i + 2), pick(when, 4 * i + 3)};
}

// Returns a made-up name of two or three syllables; nearly all names occur in one line only.
std::string made_up_name(std::uint64_t n) {
  constexpr std::array<std::string_view, 16> syllables{"ba", "dor", "ke", "lin", "mo",  "nar", "pel", "ru",
                                                       "sa", "tiv", "ul", "ven", "wos", "xa",  "yor", "zem"};
  std::string name;
  for (std::uint64_t k = 0; k < 2 + mixed(n) % 2; ++k) name += pick(syllables, 8 * n + k + 1);
  return name;
}

}  // namespace

double sample_uniform(std::uint64_t n) { return static_cast<double>(mixed(n) >> 11) * 0x1p-53; }

std::string sample_text() {
  std::string text;
  for (std::uint64_t i = 0; i < 1200; ++i) text += fmt::format("{}.\n", fmt::join(sentence(i), " "));
  return text;
}

std::string sample_documents() {
  std::string text;
  for (std::uint64_t i = 0, next = 0; i < 400; ++i) {
    std::string document;
    std::string_view who;
    for (std::uint64_t n = 2 + mixed(i) % 4; n > 0; --n, ++next) {
      who = sentence(next)[0];
      document += fmt::format("{}{}.", document.empty() ? "" : " ", fmt::join(sentence(next), " "));
    }
    text += fmt::format("{}\t{}\n", who.substr(who.rfind(' ') + 1), document);
  }
  return text;
}

std::string sample_labels() {
  constexpr std::array<std::string_view, 4> parts{"who", "does", "what", "when"};
  std::string text;
  for (std::uint64_t i = 0; i < 600; ++i) {
    const auto phrases = sentence(i);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      std::string_view left = phrases[p];
      while (!left.empty()) {
        const std::string_view word = left.substr(0, left.find(' '));
        text += fmt::format("{}\t{}\n", word, parts[p]);
        left.remove_prefix(std::min(word.size() + 1, left.size()));
      }
    }
    text += "\n";
  }
  return text;
}

std::string sample_pairs() {
  constexpr std::array<std::string_view, 20> small{
      "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
      "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  constexpr std::array<std::string_view, 10> tens{"",      "",      "twenty",  "thirty", "forty",
                                                  "fifty", "sixty", "seventy", "eighty", "ninety"};
  std::string text;
  for (std::size_t n = 0; n < 1000; ++n) {
    std::string words = n >= 100 ? fmt::format("{} hundred", small[n / 100]) : "";
    const auto add = [&](std::string_view word) { words += fmt::format("{}{}", words.empty() ? "" : " ", word); };
    const std::size_t rest = n % 100;
    if (rest >= 20) add(tens[rest / 10]);
    if (const std::size_t last = rest >= 20 ? rest % 10 : rest; last > 0 || n == 0) add(small[last]);
    text += fmt::format("{}\t{}\n", n, words);
  }
  return text;
}

std::string sample_summaries() {
  constexpr std::array<std::string_view, 5> did{"opened", "sold", "painted", "repaired", "closed"};
  constexpr std::array<std::string_view, 6> what{"a bridge", "the old mill", "a school", "the harbor", "a garden",
                                                 "the tower"};
  constexpr std::array<std::string_view, 4> when{"on monday", "last week", "in the spring", "two years ago"};
  constexpr std::array<std::string_view, 4> said{"said that the weather was fine .", "had waited for this for years .",
                                                 "sent a letter to the paper .", "was not there ."};
  std::string text;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    const std::string who = made_up_name(3 * i), where = made_up_name(3 * i + 1), other = made_up_name(3 * i + 2);
    const std::string_view act = pick(did, 5 * i), thing = pick(what, 5 * i + 1);
    std::string told = fmt::format("{} {} {} {} in {} .", pick(when, 5 * i + 2), who, act, thing, where);
    const std::string aside = fmt::format("{} {}", other, pick(said, 5 * i + 3));
    told = mixed(5 * i + 4) % 2 == 0 ? told + " " + aside : aside + " " + told;
    text += fmt::format("{}\t{} {} {} in {}\n", told, who, act, thing, where);
  }
  return text;
}

// Simulates a stock that falls with the season's demand and is refilled when it is low. Persistence and a linear model
// cannot learn that rule.
std::string sample_series() {
  std::string csv = "week,value\n";
  double stock = 100;
  for (std::uint64_t i = 0; i < 1040; ++i) {
    if (stock < 40) stock += 60;
    stock -= 10 + 3 * std::sin(2 * std::numbers::pi * static_cast<double>(i) / 52) + 2 * (sample_uniform(i) - 0.5);
    csv += fmt::format("{},{:.3f}\n", i, stock);
  }
  return csv;
}

std::string sample_patterns() {
  std::string csv;
  for (std::uint64_t i = 0; i < 900; ++i) {
    const std::uint64_t label = i % 3;
    const double phase = 2 * std::numbers::pi * sample_uniform(1000000 + i);
    for (std::uint64_t j = 0; j < 64; ++j) {
      const double wave = std::sin(2 * std::numbers::pi * static_cast<double>((label + 1) * j) / 64 + phase);
      csv += fmt::format("{:.3f},", wave + sample_uniform(64 * i + j) - 0.5);
    }
    csv += fmt::format("{}\n", label);
  }
  return csv;
}

}  // namespace unroll::cli
