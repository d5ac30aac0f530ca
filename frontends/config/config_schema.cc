// SPDX-License-Identifier: Apache-2.0
// Operations on keys: lookup, defaults, and values as TOML.
#include "frontends/config/config_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace unroll::cli {

std::string_view leaf(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string_view key_type_name(KeyType type) {
  constexpr std::string_view names[] = {"boolean", "integer", "number", "text", "array of text",
                                        "number or text"};
  return names[static_cast<int>(type)];
}

std::string_view table_key_type_name(TableKeyType type) {
  constexpr std::string_view names[] = {"text", "array of text", "number"};
  return names[static_cast<int>(type)];
}

const KeySpec* find_key(std::string_view path) {
  const auto keys = config_schema();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const KeySpec& key) { return key.path == path; });
  return found == keys.end() ? nullptr : &*found;
}

std::string_view successor_of(std::string_view path) {
  return path == "data.held_out" ? "Write data.validation and data.test: the share for each, or a file" : "";
}

const ConfigValue& default_value(const KeySpec& key, unsigned uses) {
  const auto own = key.own.find(uses);
  return own == key.own.end() ? key.fallback : own->second;
}

namespace {

// Escapes a string for double quotes. Newlines and tabs stay if `lines` is set.
std::string escaped(std::string_view text, bool lines) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') result += {'\\', c};
    else if (lines && (c == '\n' || c == '\t')) result += c;
    else if (byte < 0x20 || byte == 0x7f) result += fmt::format("\\u{:04x}", byte);
    else result += c;
  }
  return result;
}

}  // namespace

std::string toml_lines(std::string_view text) {
  return fmt::format("\"\"\"\n{}\"\"\"", escaped(text, /*lines=*/true));
}

std::string toml_text(const ConfigValue& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *i);
  if (const auto* d = std::get_if<double>(&value)) {
    std::string text = fmt::format("{}", *d);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  const auto quoted = [](const std::string& s) { return fmt::format("\"{}\"", escaped(s, /*lines=*/false)); };
  if (const auto* s = std::get_if<std::string>(&value)) return quoted(*s);
  std::vector<std::string> all;
  for (const std::string& s : std::get<std::vector<std::string>>(value)) all.push_back(quoted(s));
  return fmt::format("[{}]", fmt::join(all, ", "));
}

std::string default_text(const KeySpec& key, unsigned uses) { return toml_text(default_value(key, uses)); }

}  // namespace unroll::cli
