// SPDX-License-Identifier: Apache-2.0
// A field of an options struct of the library, for the row of the config key that fills it: the key has its type and,
// unless its row says another one, its default.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace unroll::cli {

using ConfigValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

enum class KeyType : std::uint8_t { boolean, integer, number, text, texts, number_or_text };

template <class Options>
inline constexpr char k_owner = 0;  // its address stands for the struct

struct Field {
  const void* owner = nullptr;
  KeyType type = KeyType::text;
  ConfigValue (*fallback)() = nullptr;
  void (*set)(void* options, const ConfigValue& value) = nullptr;
};

template <class Member>
struct MemberOf;
template <class Of, class T>
struct MemberOf<T Of::*> {
  using Owner = Of;
};

// `Stored` is what a ConfigValue holds of it.
template <class T>
using Stored = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::int64_t, T>;

template <class T>
constexpr KeyType key_type_of() {
  if constexpr (std::is_same_v<T, bool>) return KeyType::boolean;
  else if constexpr (std::is_integral_v<T>) return KeyType::integer;
  else if constexpr (std::is_same_v<T, double>) return KeyType::number;
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
  static ConfigValue fallback() {
    Owner options;
    return static_cast<Stored<Type>>(of(options));
  }
  static void set(void* options, const ConfigValue& value) {
    of(*static_cast<Owner*>(options)) = static_cast<Type>(std::get<Stored<Type>>(value));
  }
};

template <auto... members>
inline constexpr Field at = {&k_owner<typename Path<members...>::Owner>, key_type_of<typename Path<members...>::Type>(),
                             Path<members...>::fallback, Path<members...>::set};

}  // namespace unroll::cli
