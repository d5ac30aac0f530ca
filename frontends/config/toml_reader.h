// SPDX-License-Identifier: Apache-2.0
// Reads untrusted TOML text into a flat list of keys and values. Size and nesting are checked before the text reaches
// the parser, which recurses.
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

// std::monostate represents unsupported values: a date, a time, or an array of other elements than texts.
using TomlValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct TomlEntry {
  std::string path;  // "model.hidden"
  TomlValue value;
  std::string type;  // "integer", in TOML's words
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  // Position of a text's first character if the file contains the text verbatim; otherwise line 0.
  std::uint32_t text_line = 0;
  std::uint32_t text_column = 0;
};

// Throws Error(input_file) "name:line:column: ..." if the text is too large, too deep or not TOML.
std::vector<TomlEntry> read_toml(std::string_view text, const std::string& name);

}  // namespace unroll::cli
