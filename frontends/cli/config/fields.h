// SPDX-License-Identifier: Apache-2.0
// A field of an options struct of the library, for the row of the config key that fills it: the key has its type, is
// read by the tasks whose options have the field and, unless its row says another one, has its default in each of them.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "frontends/cli/config/task_kinds.h"

namespace unroll::cli {

using ConfigValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

enum class KeyType : std::uint8_t { boolean, integer, number, text, texts, number_or_text };

template <class Options>
inline constexpr char k_owner = 0;  // its address stands for the struct

struct Field {
  const void* owner = nullptr;
  KeyType type = KeyType::text;
  unsigned readers = 0;  // tasks whose options have the field
  ConfigValue (*fallback)(unsigned uses) = nullptr;  // in the options of this task
  void (*set)(void* options, const ConfigValue& value) = nullptr;
};

template <class Member>
struct MemberOf;
template <class Of, class T>
struct MemberOf<T Of::*> {
  using Owner = Of;
};

// `Stored` is what a ConfigValue holds of it; of the source of a split, the share.
template <class T>
using Stored = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::int64_t,
                                  std::conditional_t<std::is_same_v<T, SplitSource>, double, T>>;
template <class T>
Stored<T> stored(const T& value) {
  if constexpr (std::is_same_v<T, SplitSource>) return value.share;
  else return static_cast<Stored<T>>(value);
}

template <class T>
constexpr KeyType key_type_of() {
  if constexpr (std::is_same_v<T, bool>) return KeyType::boolean;
  else if constexpr (std::is_integral_v<T>) return KeyType::integer;
  else if constexpr (std::is_same_v<T, double>) return KeyType::number;
  else if constexpr (std::is_same_v<T, SplitSource>) return KeyType::number_or_text;
  else if constexpr (std::is_same_v<T, std::string>) return KeyType::text;
  else return KeyType::texts;
}

// The field that `first` and then `rest` lead to, as pointers to members.
template <auto first, auto... rest>
struct Path {
  using Owner = typename MemberOf<decltype(first)>::Owner;
  template <class Options>
  static auto& of(Options& options) {
    if constexpr (sizeof...(rest) == 0) return options.*first;
    else return Path<rest...>::of(options.*first);
  }
  using Type = std::remove_cvref_t<decltype(of(std::declval<Owner&>()))>;
  static ConfigValue fallback(unsigned uses) {
#define UNROLL_TASK(name, Title, word)              \
  if constexpr (has_owner<Title##Options>())        \
    if (uses == k_##name) return in_defaults_of<Title##Options>();
    UNROLL_TASKS(UNROLL_TASK)
#undef UNROLL_TASK
    return in_defaults_of<Owner>();
  }
  // A share; a file is opened where the task is made.
  static void set(void* options, const ConfigValue& value) {
    if (std::is_same_v<Type, SplitSource> && std::holds_alternative<std::string>(value)) return;
    of(*static_cast<Owner*>(options)) = static_cast<Type>(std::get<Stored<Type>>(value));
  }

 private:
  template <class Options>
  static constexpr bool has_owner() {
    return std::is_base_of_v<Owner, Options> || std::is_same_v<Owner, RecurrentModelOptions>;
  }
  template <class Options>
  static ConfigValue in_defaults_of() {
    Options options;
    if constexpr (std::is_base_of_v<Owner, Options>) return stored<Type>(of(static_cast<Owner&>(options)));
    else return stored<Type>(of(options.model));
  }
};

template <auto... members>
inline constexpr Field at = {&k_owner<typename Path<members...>::Owner>, key_type_of<typename Path<members...>::Type>(),
                             k_readers<typename Path<members...>::Owner>, Path<members...>::fallback,
                             Path<members...>::set};

}  // namespace unroll::cli
