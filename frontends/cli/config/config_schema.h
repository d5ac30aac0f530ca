// SPDX-License-Identifier: Apache-2.0
// The one table of config keys: it drives parsing, defaults, `unroll new`, the resolved config and docs/config.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/cli/config/fields.h"
#include "frontends/cli/config/task_kinds.h"

namespace unroll::cli {

std::string_view key_type_name(KeyType type);

inline constexpr double k_unbounded = 1e15;  // whole numbers up to here are exact in a double
struct Allowed {
  double lowest = 0;  // numbers: the closed range
  double highest = 0;
  std::string_view choices = {};  // texts: the words, separated by '|'; empty: any
};

// Whether a resumed run may change a key. The checkpoint fits whatever a free key is. The model, the data, the state
// of the optimizer and the position in the data depend on the fixed ones. data.path is free because files move; the
// trainer compares their content. A split is free where it is a file before and after.
enum class AtResume : std::uint8_t { fixed, free, free_file };

inline constexpr std::size_t k_most_fields = 4;
using Fields = std::array<Field, k_most_fields>;

struct KeySpec {
  constexpr KeySpec(std::string_view path_, KeyType type_, std::string_view fallback_, Allowed allowed_, unsigned uses_,
                    std::string_view doc_, AtResume at_resume_ = AtResume::fixed)
      : path(path_), type(type_), fallback(fallback_), allowed(allowed_), uses(uses_), doc(doc_),
        at_resume(at_resume_) {}
  constexpr KeySpec(std::string_view path_, std::string_view fallback_, Allowed allowed_, unsigned uses_,
                    std::string_view doc_, AtResume at_resume_, Fields fields_)
      : path(path_), type(fields_[0].type), fallback(fallback_), allowed(allowed_), uses(uses_), doc(doc_),
        at_resume(at_resume_), fields(fields_) {}

  std::string_view path;
  KeyType type;
  std::string_view fallback;  // the default, as TOML; empty: that of the fields
  Allowed allowed;
  unsigned uses;
  std::string_view doc;
  AtResume at_resume;
  Fields fields = {};  // of the library that the key fills; one in each of these structs
};

std::span<const KeySpec> config_schema();

// The keys of a table such as [cells.NAME]. Any number of such tables may stand in a config.
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
// For a key of earlier versions: what to write instead. Empty for other paths.
std::string_view successor_of(std::string_view path);
// The known path that a mistyped one most likely means.
std::string nearest_key(std::string_view path);
ConfigValue default_value(const KeySpec& key, unsigned uses = 0);  // for a kind; 0: where no kind is known
std::string default_text(const KeySpec& key, unsigned uses = 0);  // as TOML
std::string toml_text(const ConfigValue& value);
// As a string over several lines, for texts that have them.
std::string toml_lines(std::string_view text);
// The whole of docs/config.md.
std::string config_reference();

}  // namespace unroll::cli
