// SPDX-License-Identifier: Apache-2.0
#include "unroll/support/option.h"

#include <cmath>
#include <vector>

#include "core/support/text/exact_text.h"
#include "core/support/text/nearest_name.h"
#include "unroll/support/error.h"

namespace unroll {
namespace {

constexpr std::size_t k_longest_word = 256;  // bounds the cost |a| * |b| of the edit distance

// Splits "a|b" into words.
std::vector<std::string_view> words_in(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const auto bar = text.find('|');
    words.push_back(text.substr(0, bar));
    if (bar == std::string_view::npos) return words;
    text.remove_prefix(bar + 1);
  }
}

std::string number_text(double value) {
  const bool whole = std::fabs(value) < 1e15 && std::trunc(value) == value;
  return whole ? exact_text(static_cast<std::int64_t>(value)) : exact_text(value);
}

std::string value_text(const OptionValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return exact_text(*integer);
  const auto* text = std::get_if<std::string>(&value);
  return text ? "\"" + text->substr(0, 40) + "\"" : "";
}

std::string broken_rule_of_number(const Allowed& allowed, double number) {
  if (std::isfinite(number) && number >= allowed.lowest && number <= allowed.highest) return "";
  if (!std::isfinite(number)) return "It must be a finite number";
  if (std::isinf(allowed.highest)) return "It must be at least " + number_text(allowed.lowest);
  return "It must lie between " + number_text(allowed.lowest) + " and " + number_text(allowed.highest);
}

}  // namespace

std::string broken_rule(const Allowed& allowed, const OptionValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    return broken_rule_of_number(allowed, static_cast<double>(*integer));
  if (const auto* number = std::get_if<double>(&value)) return broken_rule_of_number(allowed, *number);
  const auto* text = std::get_if<std::string>(&value);
  if (!text || allowed.words.empty()) return "";
  const std::vector<std::string_view> words = words_in(allowed.words);
  if (std::ranges::find(words, *text) != words.end()) return "";
  const std::string_view near = nearest_name(std::string_view(*text).substr(0, k_longest_word), words);
  std::string hint;
  if (!near.empty()) hint.append("Did you mean ").append(near).append("? ");
  return hint.append("Use one of ").append(allowed.words);
}

void check_option(const Option& option, const void* options, std::string_view where) {
  const OptionValue value = option.get(options, option.key.allowed.words);
  const std::string rule = broken_rule(option.key.allowed, value);
  if (rule.empty()) return;
  throw Error(ErrorKind::usage, std::string(where), std::string(option.key.path) + " is " + value_text(value), rule);
}

std::string detail::word_at(std::string_view words, std::size_t index) {
  const std::vector<std::string_view> all = words_in(words);
  return index < all.size() ? std::string(all[index]) : std::to_string(index);
}

std::size_t detail::index_of_word(std::string_view words, std::string_view word) {
  const std::vector<std::string_view> all = words_in(words);
  return std::ranges::find(all, word) - all.begin();
}

std::size_t detail::require_word(std::string_view words, std::string_view word, std::string_view key) {
  const OptionValue value = std::string(word);
  const std::string rule = broken_rule(one_of(words), value);
  if (!rule.empty()) throw Error(ErrorKind::usage, "options", std::string(key) + " is " + value_text(value), rule);
  return index_of_word(words, word);
}

}  // namespace unroll
