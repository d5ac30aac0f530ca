// SPDX-License-Identifier: Apache-2.0
// Validation of configs: known keys with the right type, in range. Exit codes: files 3, command line 2.
#include "frontends/config/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/config/toml_reader.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

constexpr std::string_view k_command_line = "--";  // origins that start like this are options

ErrorKind kind_of(std::string_view origin) {
  return origin.starts_with(k_command_line) ? ErrorKind::usage : ErrorKind::input_file;
}

std::string example_of(const KeySpec& key) {
  return key.type == KeyType::texts ? "[\"a\", \"b\"]" : default_text(key);
}

// Converts the value to the key's type; returns false if the types do not match. Integers are also numbers.
bool convert(const TomlValue& from, KeyType type, ConfigValue& to) {
  if (type == KeyType::boolean && std::holds_alternative<bool>(from))
    to = std::get<bool>(from);
  else if (type == KeyType::number_or_text)
    return convert(from, KeyType::number, to) || convert(from, KeyType::text, to);
  else if (type == KeyType::integer && std::holds_alternative<std::int64_t>(from))
    to = std::get<std::int64_t>(from);
  else if (type == KeyType::number && std::holds_alternative<double>(from))
    to = std::get<double>(from);
  else if (type == KeyType::number && std::holds_alternative<std::int64_t>(from))
    to = static_cast<double>(std::get<std::int64_t>(from));
  else if (type == KeyType::text && std::holds_alternative<std::string>(from))
    to = std::get<std::string>(from);
  else if (type == KeyType::texts && std::holds_alternative<std::vector<std::string>>(from))
    to = std::get<std::vector<std::string>>(from);
  else
    return false;
  return true;
}

void check_range(const KeySpec& key, const ConfigValue& value, const std::string& origin) {
  constexpr std::int64_t k_largest = 1'000'000'000'000'000;  // sums of a few such numbers do not overflow
  std::string rule = broken_rule(key.allowed, value);
  if (const auto* integer = std::get_if<std::int64_t>(&value); integer && *integer > k_largest && rule.empty())
    rule = fmt::format("It must be at most {}", k_largest);
  if (rule.empty()) return;
  throw Error(kind_of(origin), origin, fmt::format("{} is {}", key.path, toml_text(value)), rule);
}

// Splits "a,b" from a shell.
// Commas within parentheses, as in conv(64, kernel=3), are no ends of words.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) words.emplace_back();
    else words.back() += c;
  }
  return words;
}

const KeySpec& known_key(std::string_view path, const std::string& origin) {
  if (const KeySpec* key = find_key(path)) return *key;
  if (const std::string_view next = successor_of(path); !next.empty())
    throw Error(kind_of(origin), origin, fmt::format("{} is a key of earlier versions", path), next);
  const std::string_view near = nearest_key(path);
  throw Error(kind_of(origin), origin, fmt::format("unknown key {}", path),
              near.empty() ? "docs/config.md lists all keys"
                           : fmt::format("Did you mean {}? docs/config.md lists all keys", near));
}

}  // namespace

Config::Config() {
  for (const KeySpec& key : config_schema()) entries_.emplace(key.path, Entry{default_value(key), ""});
}

const Config::Entry& Config::entry(std::string_view path) const { return entries_.find(path)->second; }

void Config::set(std::string_view path, ConfigValue value, std::string origin) {
  check_range(known_key(path, origin), value, origin);
  entries_.find(path)->second = {std::move(value), std::move(origin)};
  if (path != "task.kind") return;
  for (const KeySpec& key : config_schema()) {
    if (is_default(key.path)) entries_.find(key.path)->second.value = default_value(key, uses());
  }
}

void Config::fill_fields(const void* owner, void* options) const {
  for (const KeySpec& key : config_schema())
    for (const KeyField& field : key.fields)
      if (field.owner == owner) field.option->set(options, value(key.path), key.allowed.words);
}

void Config::take_fields(const void* owner, const void* options) {
  for (const KeySpec& key : config_schema())
    for (const KeyField& field : key.fields)
      if (field.owner == owner) set(key.path, field.option->get(options, key.allowed.words), "run");
}

void Config::apply_toml(std::string_view text, const std::string& name) {
  for (const TomlEntry& given : read_toml(text, name)) {
    if (is_table_path(given.path)) {
      take_table_key(given, name);
      continue;
    }
    const std::string origin = fmt::format("{}:{}:{}", name, given.line, given.column);
    const KeySpec& key = known_key(given.path, origin);
    ConfigValue value;
    if (!convert(given.value, key.type, value)) {
      throw Error(ErrorKind::input_file, origin, fmt::format("{} is of type {}", key.path, given.type),
                  fmt::format("It must be of type {}, such as {}", key_type_name(key.type), example_of(key)));
    }
    set(key.path, std::move(value), origin);
  }
  finish_tables(name);
}

void Config::apply_setting(std::string_view setting) {
  const std::string origin = fmt::format("--set {}", setting);
  if (is_table_path(setting)) {
    const std::string_view table = setting.substr(0, setting.find('.'));
    throw Error(ErrorKind::usage, origin, fmt::format("{} are given in a file", table),
                fmt::format("Write a table [{}.NAME] in the config", table));
  }
  const auto equals = setting.find('=');
  if (equals == std::string_view::npos) {
    throw Error(ErrorKind::usage, origin, "the setting has no value", "Write --set section.key=value");
  }
  const KeySpec& key = known_key(setting.substr(0, equals), origin);
  const std::string_view text = setting.substr(equals + 1);
  if (key.type == KeyType::texts && !text.starts_with('[')) return set(key.path, words_of(text), origin);
  ConfigValue value = std::string(text);
  if (key.type != KeyType::text || text.starts_with('"')) {
    TomlValue scalar;
    try {
      const auto entries = read_toml(fmt::format("v = {}", text), origin);
      if (entries.size() == 1 && entries[0].path == "v") scalar = entries[0].value;
    } catch (const Error&) {
      scalar = std::monostate{};
    }
    const bool is_path = key.type == KeyType::number_or_text && std::holds_alternative<std::monostate>(scalar);
    if (!is_path && !convert(scalar, key.type, value)) {
      throw Error(ErrorKind::usage, origin, fmt::format("the value is not of type {}", key_type_name(key.type)),
                  fmt::format("Write for example --set {}={}", key.path, example_of(key)));
    }
  }
  set(key.path, std::move(value), origin);
}

void Config::refuse(std::string_view path, std::string_view what, std::string_view next) const {
  const Entry& at = entry(path);
  const std::string origin = at.origin.empty() ? "config" : at.origin;
  throw Error(kind_of(origin), origin, fmt::format("{} = {}: {}", path, toml_text(at.value), what), next);
}

void Config::refuse_unread() const {
  for (const KeySpec& key : config_schema()) {
    if (key.uses & uses() || is_default(key.path)) continue;
    refuse(key.path, fmt::format("{} does not read this key", text("task.kind")),
           "Remove it; docs/config.md says who reads what");
  }
}

unsigned Config::uses() const {
  const TaskKind* kind = find_task_kind(text("task.kind"));
  return kind ? kind->bit : k_tensors;
}

bool Config::reads(std::string_view path) const { return find_key(path)->uses & uses(); }

std::string Config::toml(unsigned uses) const {
  std::string out;
  std::string_view section;
  for (const KeySpec& key : config_schema()) {
    if (!(key.uses & uses)) continue;
    const auto dot = key.path.find('.');
    if (key.path.substr(0, dot) != section) {
      section = key.path.substr(0, dot);
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    }
    const std::string line = fmt::format("{} = {}", key.path.substr(dot + 1), toml_text(entry(key.path).value));
    std::string_view words = key.allowed.words;
    if (words.ends_with('|')) words.remove_suffix(1);  // the last word is empty
    out += fmt::format("{:<32}# {}{}\n", line, key.meaning, words.empty() ? "" : fmt::format(" ({})", words));
  }
  out += tables_toml(uses);
  return out;
}

}  // namespace unroll::cli
