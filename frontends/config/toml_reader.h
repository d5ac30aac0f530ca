// SPDX-License-Identifier: Apache-2.0
// Untrusted TOML text to a flat list of keys and values. Size and nesting are checked before the parser, which
// recurses, sees the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace unroll::cli {

inline constexpr std::size_t k_max_toml_bytes = std::size_t{1} << 20;
inline constexpr int k_max_toml_depth = 64;
inline constexpr std::size_t k_max_toml_entries = 4096;

// std::monostate stands for what a config never holds: a date, a time, or an array of anything but texts.
using TomlValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct TomlEntry {
  std::string path;  // "model.hidden"
  TomlValue value;
  std::string type;  // "integer", in TOML's words
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  // Where a text's first character stands when the file holds the text letter by letter; line 0 when it does not.
  std::uint32_t text_line = 0;
  std::uint32_t text_column = 0;
};

// Throws Error(input_file) "name:line:column: ..." when the text is too large, too deep or not TOML.
std::vector<TomlEntry> read_toml(std::string_view text, const std::string& name);

}  // namespace unroll::cli
