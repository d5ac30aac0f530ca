// SPDX-License-Identifier: Apache-2.0
// A validated config: every key of the schema with its value and origin.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/config/config_schema.h"
#include "unroll/model/model.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

struct TomlEntry;

class Config {
 public:
  Config();  // defaults

  // Throws Error(input_file) with name:line:column, the key and the nearest known key.
  void apply_toml(std::string_view text, const std::string& name);
  // "section.key=value"; the value is TOML, or plain text for a text key, or a,b for an array of text. Throws
  // Error(usage).
  void apply_setting(std::string_view setting);
  void set(std::string_view path, ConfigValue value, std::string origin);

  bool boolean(std::string_view path) const { return get<bool>(path); }
  std::int64_t integer(std::string_view path) const { return get<std::int64_t>(path); }
  double number(std::string_view path) const { return get<double>(path); }
  const std::string& text(std::string_view path) const { return get<std::string>(path); }
  const ConfigValue& value(std::string_view path) const { return entry(path).value; }
  const std::vector<std::string>& texts(std::string_view path) const { return get<std::vector<std::string>>(path); }
  std::vector<TextCell> cells() const;  // the validated tables [cells.NAME]
  std::vector<ParameterGroup> groups() const;  // the tables [groups.NAME], in the order of the file
  // Sets the fields of the library's options that have a key, including fields of a base class.
  template <class Options>
  void fill(Options& options) const {
    fill_fields(&k_owner<Options>, &options);
  }
  // The reverse: sets keys from such fields.
  template <class Options>
  void take(const Options& options) {
    take_fields(&k_owner<Options>, &options);
  }
  bool is_default(std::string_view path) const { return entry(path).origin.empty(); }
  // Returns a line for each key that differs from its default and has no effect with the other values
  // (OptionKey::needs).
  std::vector<std::string> settings_without_effect(unsigned uses) const;
  std::vector<std::string> settings_without_effect() const { return settings_without_effect(uses()); }

  // Returns the keys that `uses` reads, in schema order, and all tables, as TOML with comments. It reads back
  // unchanged.
  std::string toml(unsigned uses) const;
  unsigned uses() const;  // from task.kind
  bool reads(std::string_view path) const;  // true if task.kind reads the key

  // Throws if a key was set that task.kind does not read.
  void refuse_unread() const;
  // Throws the error of a value that conflicts with others, with its origin.
  [[noreturn]] void refuse(std::string_view path, std::string_view what, std::string_view next = {}) const;

  friend bool operator==(const Config& a, const Config& b) { return a.toml(k_every) == b.toml(k_every); }

 private:
  struct Entry {
    ConfigValue value;
    std::string origin;  // empty: the default
  };
  const Entry& entry(std::string_view path) const;
  void fill_fields(const void* owner, void* options) const;
  void take_fields(const void* owner, const void* options);
  template <class T> const T& get(std::string_view path) const { return std::get<T>(entry(path).value); }

  struct Group {
    std::string name;
    std::uint32_t line = 0;  // the first of the table's keys
    ParameterGroup group;
  };
  void take_table_key(const TomlEntry& given, const std::string& name);
  void take_cell_key(const TomlEntry& given, const std::string& name, const std::string& cell, std::string_view key);
  void take_group_key(const TomlEntry& given, const std::string& group, std::string_view key);
  void finish_tables(const std::string& name);
  std::string tables_toml(unsigned uses) const;

  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, TextCell, std::less<>> cells_;
  std::vector<Group> groups_;  // in the order of the file
};

// True if a path belongs to a table of table_schema(): "cells.NAME.key".
bool is_table_path(std::string_view path);

}  // namespace unroll::cli
