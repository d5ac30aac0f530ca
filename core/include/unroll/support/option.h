// SPDX-License-Identifier: Apache-2.0
// Declarations of options. Below a struct of options, k_options has a row for each field that a config can set: the
// key, the allowed values, the meaning, and the right of a resumed run to change it. The field's initializer is the
// default. check_options refuses other values. The command reads configs and writes docs/config.md from these rows.
//
//   struct ClipOptions {
//     double norm = 1;
//   };
//   template <>
//   inline constexpr auto k_options<ClipOptions> = std::array{
//       option<&ClipOptions::norm>({"train.clip_norm", between(0, 1e9), "maximum norm; 0: off", AtResume::free}),
//   };
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "unroll/support/export.h"

namespace unroll {

struct Allowed {
  double lowest = 0, highest = 0;  // for numbers, both included
  std::string_view words = {};     // for texts: separated by '|'; empty: any text
};
constexpr Allowed between(double lowest, double highest) { return {lowest, highest}; }
constexpr Allowed from(double lowest) { return {lowest, std::numeric_limits<double>::infinity()}; }
constexpr Allowed one_of(std::string_view words) { return {.words = words}; }
inline constexpr Allowed any_value;  // booleans and texts

// The right of a resumed run to change an option. A checkpoint fits any value of a free option. The model, the data,
// the optimizer state and the position in the data depend on the fixed ones. A free_file split may change from a file
// to another file.
enum class AtResume : std::uint8_t { fixed, free, free_file };
// Options of training have no effect on a trained model.
enum class Affects : std::uint8_t { model, training };

struct OptionKey {
  std::string_view path;  // in a config: "train.lr"
  Allowed allowed;
  std::string_view meaning;
  AtResume at_resume = AtResume::fixed;
  Affects affects = Affects::model;
  // Condition on other options without which this one has no effect: "train.cooldown > 0 or train.schedule =
  // linear|cosine". The command then warns about a value that is not the default. Empty: it always has an effect.
  std::string_view needs = {};
};

enum class OptionType : std::uint8_t { boolean, integer, number, text, texts, number_or_text };
using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

// A row: the key of one field. `options` points to the struct.
struct Option {
  OptionKey key;
  OptionType type;
  OptionValue (*get)(const void* options, std::string_view words);
  void (*set)(void* options, const OptionValue& value, std::string_view words);
};

template <class Options>
inline constexpr std::array<Option, 0> k_options = {};

// Returns the rule that a value breaks, for messages: "It must lie between 0 and 1". Empty: the value is allowed.
UNROLL_API std::string broken_rule(const Allowed& allowed, const OptionValue& value);
// Throws Error(usage) from `where`, with the key, the value and the rule.
UNROLL_API void check_option(const Option& option, const void* options, std::string_view where);
template <class Options>
void check_options(const Options& options, std::string_view where) {
  for (const Option& option : k_options<Options>) check_option(option, &options, where);
}

namespace detail {

// Convert between the words of an enumeration, "none|ema|mean", and their index.
UNROLL_API std::string word_at(std::string_view words, std::size_t index);
UNROLL_API std::size_t index_of_word(std::string_view words, std::string_view word);
UNROLL_API std::size_t require_word(std::string_view words, std::string_view word, std::string_view key);

template <class T>
concept HasShare = requires(T value) { value.share; };  // the source of a split: a share of the data, or a file

template <class T>
constexpr OptionType option_type() {
  if constexpr (std::is_same_v<T, bool>) return OptionType::boolean;
  else if constexpr (std::is_integral_v<T>) return OptionType::integer;
  else if constexpr (std::is_floating_point_v<T>) return OptionType::number;
  else if constexpr (HasShare<T>) return OptionType::number_or_text;
  else if constexpr (std::is_enum_v<T> || std::is_same_v<T, std::string>) return OptionType::text;
  else return OptionType::texts;
}

template <class T>
struct OfMember;
template <class Struct, class T>
struct OfMember<T Struct::*> {
  using Options = Struct;
  using Type = T;
};

template <auto member>
struct Field {
  using Options = typename OfMember<decltype(member)>::Options;
  using T = typename OfMember<decltype(member)>::Type;

  static OptionValue get(const void* options, std::string_view words) {
    const T& value = static_cast<const Options*>(options)->*member;
    if constexpr (HasShare<T>) return value.share;
    else if constexpr (std::is_enum_v<T>) return word_at(words, static_cast<std::size_t>(value));
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value) : INT64_MAX;
    else return value;
  }
  // The task opens the file of a split.
  static void set(void* options, const OptionValue& value, std::string_view words) {
    T& field = static_cast<Options*>(options)->*member;
    if constexpr (HasShare<T>) {
      if (const auto* share = std::get_if<double>(&value)) field = *share;
    } else if constexpr (std::is_enum_v<T>) {
      field = static_cast<T>(index_of_word(words, std::get<std::string>(value)));
    } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      field = static_cast<T>(std::get<std::int64_t>(value));
    } else {
      field = std::get<T>(value);
    }
  }
};

}  // namespace detail

// The words of an enumeration in its order, as in `one_of`.
template <class Enum>
inline constexpr std::string_view k_enum_words = {};
template <class Enum>
std::string word_of(Enum value) {
  return detail::word_at(k_enum_words<Enum>, static_cast<std::size_t>(value));
}
// Throws Error(usage) with the key and the known words on another word.
template <class Enum>
Enum from_word(std::string_view word, std::string_view key) {
  return static_cast<Enum>(detail::require_word(k_enum_words<Enum>, word, key));
}

template <auto member>
constexpr Option option(OptionKey key, std::string_view needs = {}) {
  key.needs = needs;
  using Of = detail::Field<member>;
  return {key, detail::option_type<typename Of::T>(), Of::get, Of::set};
}

}  // namespace unroll
