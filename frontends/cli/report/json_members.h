// SPDX-License-Identifier: Apache-2.0
// Members of JSON that another program may have written. A member that is absent or of another type is empty.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace unroll::cli {

inline const nlohmann::ordered_json& member(const nlohmann::ordered_json& object, const char* key) {
  static const nlohmann::ordered_json none;
  const auto at = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && at != object.end() ? *at : none;
}
inline std::string text_at(const nlohmann::ordered_json& object, const char* key) {
  const auto& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}
// Returns a number of at most `most` in size.
inline std::optional<double> number_at(const nlohmann::ordered_json& object, const char* key, double most = 1e300) {
  const auto& value = member(object, key);
  if (!value.is_number() || !(std::abs(value.get<double>()) <= most)) return std::nullopt;
  return value.get<double>();
}

}  // namespace unroll::cli
