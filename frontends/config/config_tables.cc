// SPDX-License-Identifier: Apache-2.0
// The repeatable tables of a config: [cells.NAME] and [groups.NAME].
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/support/text/nearest_name.h"
#include "frontends/config/config.h"
#include "frontends/config/toml_reader.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

std::string_view table_of(std::string_view path) { return path.substr(0, path.find('.')); }

bool fits(const TomlValue& value, TableKeyType type) {
  switch (type) {
    case TableKeyType::text:
      return std::holds_alternative<std::string>(value);
    case TableKeyType::texts:
      return std::holds_alternative<std::vector<std::string>>(value);
    case TableKeyType::number:
      return std::holds_alternative<double>(value) || std::holds_alternative<std::int64_t>(value);
  }
  return false;
}

// Throws Error(input_file) if the key is unknown or its value has another type.
void check_key(const TomlEntry& given, std::string_view key, const std::string& origin) {
  const std::string_view table = table_of(given.path);
  std::vector<std::string_view> known;
  const TableKeySpec* spec = nullptr;
  for (const TableKeySpec& row : table_schema()) {
    if (row.table != table) continue;
    known.push_back(row.key);
    if (row.key == key) spec = &row;
  }
  if (!spec) {
    const std::string_view near = nearest_name(key, known);
    throw Error(ErrorKind::input_file, origin, fmt::format("unknown key {}", given.path),
                near.empty() ? fmt::format("[{}.NAME] has {}", table, fmt::join(known, ", "))
                             : fmt::format("Did you mean {}?", near));
  }
  if (fits(given.value, spec->type)) return;
  throw Error(ErrorKind::input_file, origin, fmt::format("{} is of type {}", given.path, given.type),
              spec->type == TableKeyType::texts ? "It must be an array of names, such as [\"h\", \"c\"]"
                                                : fmt::format("It must be a {}", table_key_type_name(spec->type)));
}

}  // namespace

bool is_table_path(std::string_view path) {
  if (path.find('.') == std::string_view::npos) return false;
  return std::any_of(table_schema().begin(), table_schema().end(),
                     [&](const TableKeySpec& row) { return row.table == table_of(path); });
}

void Config::take_table_key(const TomlEntry& given, const std::string& name) {
  const std::string origin = fmt::format("{}:{}:{}", name, given.line, given.column);
  const std::string_view path = given.path, table = table_of(path);
  const auto dot = path.rfind('.');
  if (dot <= table.size()) {
    throw Error(ErrorKind::input_file, origin, fmt::format("{} is of type {}", path, given.type),
                fmt::format("Write a table [{}] with its keys", path));
  }
  const std::string of(path.substr(table.size() + 1, dot - table.size() - 1));
  const std::string_view key = path.substr(dot + 1);
  check_key(given, key, origin);
  if (table == "cells") return take_cell_key(given, name, of, key);
  take_group_key(given, of, key);
}

void Config::take_cell_key(const TomlEntry& given, const std::string& name, const std::string& of,
                           std::string_view key) {
  TextCell& cell = cells_[of];
  const TextPlace place{name, static_cast<int>(given.line), static_cast<int>(given.column)};
  if (cell.name.empty()) cell = {.name = of, .place = place, .step_place = place, .y_place = place};
  const TextPlace text{name, static_cast<int>(given.text_line), static_cast<int>(given.text_column)};
  if (key == "states") {
    cell.states = std::get<std::vector<std::string>>(given.value);
    cell.place = place;
  } else {
    (key == "y" ? cell.y : cell.step) = std::get<std::string>(given.value);
    (key == "y" ? cell.y_place : cell.step_place) = text;
  }
}

void Config::take_group_key(const TomlEntry& given, const std::string& of, std::string_view key) {
  auto at = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.name == of; });
  if (at == groups_.end()) at = groups_.insert(at, {of, given.line, {}});
  at->line = std::min(at->line, given.line);
  if (key == "match") {
    at->group.match = std::get<std::string>(given.value);
    return;
  }
  const auto* whole = std::get_if<std::int64_t>(&given.value);
  const double number = whole ? static_cast<double>(*whole) : std::get<double>(given.value);
  if (key == "lr_scale") at->group.lr_scale = number;
  else at->group.weight_decay = number;
}

void Config::finish_tables(const std::string& name) {
  for (const auto& [cell, given] : cells_) make_text_cell(given);
  std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) { return a.line < b.line; });
  for (const Group& g : groups_) {
    const bool plain = std::all_of(g.name.begin(), g.name.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '-';
    });
    if (!plain || g.name.empty())
      throw Error(ErrorKind::input_file, fmt::format("{}:{}", name, g.line), "a group has a name of other characters",
                  "Use letters, digits, _ and -");
    if (g.group.match.empty())
      throw Error(ErrorKind::input_file, fmt::format("{}:{}", name, g.line),
                  fmt::format("[groups.{}] has no match", g.name), "Write for example match = \"embedding.*\"");
  }
}

std::vector<TextCell> Config::cells() const {
  std::vector<TextCell> list;
  for (const auto& [name, cell] : cells_) list.push_back(cell);
  return list;
}

std::vector<ParameterGroup> Config::groups() const {
  std::vector<ParameterGroup> list;
  for (const Group& g : groups_) list.push_back(g.group);
  return list;
}

std::string Config::tables_toml(unsigned uses) const {
  std::string out;
  for (const auto& [name, cell] : cells_) {
    std::vector<std::string> states;
    for (const std::string& state : cell.states) states.push_back(toml_text(state));
    out += fmt::format("\n[cells.{}]\nstates = [{}]\nstep = {}\n", name, fmt::join(states, ", "),
                       toml_lines(cell.step));
    if (!cell.y.empty()) out += fmt::format("y = {}\n", toml_text(cell.y));
  }
  if (!(uses & k_trained)) return out;
  for (const Group& g : groups_) {
    out += fmt::format("\n[groups.{}]\nmatch = {}\nlr_scale = {}\n", g.name, toml_text(g.group.match),
                       toml_text(g.group.lr_scale));
    if (g.group.weight_decay) out += fmt::format("weight_decay = {}\n", toml_text(*g.group.weight_decay));
  }
  return out;
}

}  // namespace unroll::cli
