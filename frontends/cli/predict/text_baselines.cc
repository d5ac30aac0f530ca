// SPDX-License-Identifier: Apache-2.0
// Baselines that generate a text for each text, and counts of their words.
#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <sstream>
#include <vector>

#include "frontends/cli/predict/pair_scores.h"

namespace unroll::cli {
namespace {

using Words = std::vector<std::string>;

Words separate_words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string joined(const Words& words, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < std::min(n, words.size()); ++i) text += (i == 0 ? "" : " ") + words[i];
  return text;
}

// Replaces each word by its most frequent counterpart at the same position in training pairs of equal length.
class WordByWord {
 public:
  explicit WordByWord(const PairTask& task) {
    task.for_each_pair(Split::train, [&](const PairTask::Pair& pair) {
      const Words from = separate_words(pair.source), to = separate_words(pair.target);
      for (std::size_t i = 0; from.size() == to.size() && i < from.size(); ++i) ++seen_[from[i]][to[i]];
    });
  }
  std::string operator()(const std::string& source) const {
    Words words = separate_words(source);
    for (std::string& word : words) word = of(word);
    return joined(words, words.size());
  }

 private:
  std::string of(const std::string& word) const {
    const auto at = seen_.find(word);
    if (at == seen_.end()) return word;
    const auto rarer = [](const auto& a, const auto& b) { return a.second < b.second; };
    return std::max_element(at->second.begin(), at->second.end(), rarer)->first;
  }
  std::map<std::string, std::map<std::string, int>> seen_;
};

// Returns the text up to the first word that ends in . ! or ?
std::string first_sentence(const std::string& text) {
  const Words words = separate_words(text);
  const auto end = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.ends_with('.') || word.ends_with('!') || word.ends_with('?');
  });
  return joined(words, (end - words.begin()) + 1);
}

// Copies the first words, as many as targets of the training set have on average.
class FirstWords {
 public:
  explicit FirstWords(const PairTask& task) {
    std::size_t words = 0, targets = 0;
    task.for_each_pair(Split::train, [&](const PairTask::Pair& pair) {
      words += separate_words(pair.target).size();
      ++targets;
    });
    n_ = (words + targets / 2) / std::max<std::size_t>(targets, 1);
  }
  std::string operator()(const std::string& text) const { return joined(separate_words(text), n_); }

 private:
  std::size_t n_ = 0;
};

}  // namespace

std::map<std::string, Guess> translation_baselines(const PairTask& data) {
  return {{"source_as_it_is", [](const std::string& source) { return source; }}, {"word_by_word", WordByWord(data)}};
}
std::map<std::string, Guess> summary_baselines(const PairTask& data) {
  return {{"first_sentence", first_sentence}, {"first_words", FirstWords(data)}};
}

double repeated_trigrams(std::span<const std::string> texts) {
  std::int64_t all = 0, repeated = 0;
  for (const std::string& text : texts) {
    std::string small = text;
    for (char& c : small)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const Words words = separate_words(small);
    std::set<std::array<std::string, 3>> seen;
    for (std::size_t i = 0; i + 2 < words.size(); ++i, ++all)
      repeated += !seen.insert({words[i], words[i + 1], words[i + 2]}).second;
  }
  return static_cast<double>(repeated) / static_cast<double>(std::max<std::int64_t>(all, 1));
}

}  // namespace unroll::cli
