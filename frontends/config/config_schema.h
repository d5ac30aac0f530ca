// SPDX-License-Identifier: Apache-2.0
// The config schema: it defines parsing, defaults, `unroll new`, the resolved config and docs/config.md. Most keys are
// declared with the library's options (unroll/support/option.h), those of the command only in config_keys.cc.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/config/task_kinds.h"
#include "unroll/support/option.h"

namespace unroll::cli {

using ConfigValue = OptionValue;
using KeyType = OptionType;

std::string_view key_type_name(KeyType type);

template <class Options>
inline constexpr char k_owner = 0;  // its address identifies the struct

// A field of a library options struct that a key sets.
struct KeyField {
  const void* owner;
  const Option* option;
};

struct KeySpec : OptionKey {
  KeyType type;
  ConfigValue fallback;                  // for an unknown kind of task
  unsigned uses = 0;                     // the kinds that read it
  std::map<unsigned, ConfigValue> own = {};  // kind-specific defaults, by bit
  std::vector<KeyField> fields = {};     // one field in each of these structs
};

std::span<const KeySpec> config_schema();

// Keys of a table such as [cells.NAME]. A config may have any number of such tables.
enum class TableKeyType : std::uint8_t { text, texts, number };
std::string_view table_key_type_name(TableKeyType type);
struct TableKeySpec {
  std::string_view table;  // "cells"
  std::string_view key;
  TableKeyType type;
  std::string_view doc;
};
std::span<const TableKeySpec> table_schema();
std::string_view leaf(std::string_view path);  // "train.lr": "lr"
const KeySpec* find_key(std::string_view path);
// Returns the replacement for a key of earlier versions. Empty for other paths.
std::string_view successor_of(std::string_view path);
// Returns the path of the key with this name in any section or in other tools ("learning_rate"). Empty: none.
std::string_view key_named(std::string_view name);
// Returns the most likely known path for a mistyped one. Empty: none is near.
std::string_view nearest_key(std::string_view path);
const ConfigValue& default_value(const KeySpec& key, unsigned uses = 0);  // for a kind; 0: for an unknown kind
std::string default_text(const KeySpec& key, unsigned uses = 0);  // as TOML
std::string toml_text(const ConfigValue& value);
// Returns a multi-line string for texts with line breaks.
std::string toml_lines(std::string_view text);
// Returns the complete docs/config.md.
std::string config_reference();

}  // namespace unroll::cli
