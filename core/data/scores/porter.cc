// SPDX-License-Identifier: Apache-2.0
#include "core/data/scores/porter.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace unroll {

namespace {

// Words with an irregular stem.
constexpr std::pair<std::string_view, std::string_view> k_irregular[] = {
    {"sky", "sky"},           {"skies", "sky"},         {"dying", "die"},       {"lying", "lie"},
    {"tying", "tie"},         {"news", "news"},         {"innings", "inning"},  {"inning", "inning"},
    {"outings", "outing"},    {"outing", "outing"},     {"cannings", "canning"}, {"canning", "canning"},
    {"howe", "howe"},         {"proceed", "proceed"},   {"exceed", "exceed"},   {"succeed", "succeed"},
};

bool is_consonant(std::string_view word, std::size_t i) {
  if (word[i] == 'y') return i == 0 || !is_consonant(word, i - 1);
  return std::string_view("aeiou").find(word[i]) == std::string_view::npos;
}
// Returns m of a word [C](VC)^m[V].
int measure(std::string_view stem) {
  int m = 0;
  for (std::size_t i = 1; i < stem.size(); ++i) m += is_consonant(stem, i) && !is_consonant(stem, i - 1);
  return m;
}
bool contains_vowel(std::string_view stem) {
  for (std::size_t i = 0; i < stem.size(); ++i)
    if (!is_consonant(stem, i)) return true;
  return false;
}
bool ends_in_double_consonant(std::string_view word) {
  const std::size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && is_consonant(word, n - 1);
}
// Porter's *o; NLTK also counts two-letter words of a vowel and a consonant.
bool ends_cvc(std::string_view word) {
  const std::size_t n = word.size();
  if (n == 2) return !is_consonant(word, 0) && is_consonant(word, 1);
  return n >= 3 && is_consonant(word, n - 3) && !is_consonant(word, n - 2) && is_consonant(word, n - 1) &&
         std::string_view("wxy").find(word[n - 1]) == std::string_view::npos;
}

using Condition = bool (*)(std::string_view stem);
bool always(std::string_view) { return true; }
bool is_measured(std::string_view stem) { return measure(stem) > 0; }
bool is_long(std::string_view stem) { return measure(stem) > 1; }

struct Rule {
  std::string_view suffix, replacement;
  Condition condition;
};
// Applies the first rule with a matching suffix.
std::string with_rules(const std::string& word, std::initializer_list<Rule> rules) {
  for (const Rule& rule : rules) {
    if (!word.ends_with(rule.suffix)) continue;
    const std::string stem = word.substr(0, word.size() - rule.suffix.size());
    return rule.condition(stem) ? stem + std::string(rule.replacement) : word;
  }
  return word;
}
std::string replaced(const std::string& word, std::size_t n, std::string_view by) {
  return word.substr(0, word.size() - n) + std::string(by);
}

// Removes plurals.
std::string step_1a(const std::string& word) {
  if (word.ends_with("ies") && word.size() == 4) return replaced(word, 3, "ie");
  return with_rules(word, {{"sses", "ss", always}, {"ies", "i", always}, {"ss", "ss", always}, {"s", "", always}});
}

// Removes -ed and -ing.
std::string step_1b(const std::string& word) {
  if (word.ends_with("ied")) return replaced(word, 3, word.size() == 4 ? "ie" : "i");
  if (word.ends_with("eed")) return with_rules(word, {{"eed", "ee", is_measured}});
  std::string stem;
  for (const std::string_view suffix : {"ed", "ing"}) {
    if (!word.ends_with(suffix)) continue;
    stem = word.substr(0, word.size() - suffix.size());
    if (contains_vowel(stem)) break;
    stem.clear();
  }
  if (stem.empty()) return word;
  for (const std::string_view suffix : {"at", "bl", "iz"})
    if (stem.ends_with(suffix)) return stem + "e";
  if (ends_in_double_consonant(stem))
    return std::string_view("lsz").find(stem.back()) == std::string_view::npos ? replaced(stem, 1, "") : stem;
  return measure(stem) == 1 && ends_cvc(stem) ? stem + "e" : stem;
}

std::string step_1c(const std::string& word) {
  return with_rules(word, {{"y", "i", [](std::string_view stem) {
                              return stem.size() > 1 && is_consonant(stem, stem.size() - 1);
                            }}});
}

std::string step_2(const std::string& word) {
  if (word.ends_with("alli") && is_measured(std::string_view(word).substr(0, word.size() - 4)))
    return step_2(replaced(word, 4, "al"));
  return with_rules(
      word,
      {{"ational", "ate", is_measured},  {"tional", "tion", is_measured}, {"enci", "ence", is_measured},
       {"anci", "ance", is_measured},    {"izer", "ize", is_measured},    {"bli", "ble", is_measured},
       {"alli", "al", is_measured},      {"entli", "ent", is_measured},   {"eli", "e", is_measured},
       {"ousli", "ous", is_measured},    {"ization", "ize", is_measured}, {"ation", "ate", is_measured},
       {"ator", "ate", is_measured},     {"alism", "al", is_measured},    {"iveness", "ive", is_measured},
       {"fulness", "ful", is_measured},  {"ousness", "ous", is_measured}, {"aliti", "al", is_measured},
       {"iviti", "ive", is_measured},    {"biliti", "ble", is_measured},  {"fulli", "ful", is_measured},
       // NLTK counts the l of -logi as part of the stem.
       {"logi", "log", [](std::string_view stem) { return is_measured(std::string(stem) + "l"); }}});
}

std::string step_3(const std::string& word) {
  return with_rules(word, {{"icate", "ic", is_measured}, {"ative", "", is_measured}, {"alize", "al", is_measured},
                           {"iciti", "ic", is_measured}, {"ical", "ic", is_measured}, {"ful", "", is_measured},
                           {"ness", "", is_measured}});
}

bool is_long_st(std::string_view stem) { return is_long(stem) && (stem.back() == 's' || stem.back() == 't'); }

std::string step_4(const std::string& word) {
  return with_rules(
      word, {{"al", "", is_long},    {"ance", "", is_long}, {"ence", "", is_long},   {"er", "", is_long},
             {"ic", "", is_long},    {"able", "", is_long}, {"ible", "", is_long},   {"ant", "", is_long},
             {"ement", "", is_long}, {"ment", "", is_long}, {"ent", "", is_long},    {"ion", "", is_long_st},
             {"ou", "", is_long},    {"ism", "", is_long},  {"ate", "", is_long},    {"iti", "", is_long},
             {"ous", "", is_long},   {"ive", "", is_long},  {"ize", "", is_long}});
}

std::string step_5(const std::string& word) {
  std::string stem = word;
  if (word.ends_with('e')) {
    const std::string before = replaced(word, 1, "");
    if (measure(before) > 1 || (measure(before) == 1 && !ends_cvc(before))) stem = before;
  }
  const bool doubled = stem.ends_with("ll") && is_long(std::string_view(stem).substr(0, stem.size() - 1));
  return doubled ? replaced(stem, 1, "") : stem;
}

}  // namespace

std::string porter_stem(const std::string& word) {
  const auto irregular =
      std::find_if(std::begin(k_irregular), std::end(k_irregular), [&](const auto& row) { return row.first == word; });
  if (irregular != std::end(k_irregular)) return std::string(irregular->second);
  if (word.size() <= 2) return word;
  std::string stem = word;
  for (const auto& step : {step_1a, step_1b, step_1c, step_2, step_3, step_4, step_5}) stem = step(stem);
  return stem;
}

}  // namespace unroll
