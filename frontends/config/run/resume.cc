// SPDX-License-Identifier: Apache-2.0
#include "frontends/config/run/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <variant>

#include "core/support/text/shell_word.h"
#include "core/support/text/utf8.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

bool names_file(const Config& config, std::string_view key) {
  return std::holds_alternative<std::string>(config.value(key));
}

// Keys of tables, such as [cells.NAME], are fixed.
bool is_free(std::string_view path, const Config& was, const Config& is) {
  const KeySpec* key = find_key(path);
  if (!key || key->at_resume == AtResume::fixed) return false;
  return key->at_resume == AtResume::free || (names_file(was, path) && names_file(is, path));
}

// Shortens a value, so that a line with both values fits a terminal.
std::string shortened_value(const std::string& text) {
  constexpr std::size_t k_most = 24;
  if (text.size() <= k_most) return text;
  std::size_t head = k_most / 2 - 1, tail = text.size() - k_most / 2;
  while (head > 0 && continues_character(text[head])) --head;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return text.substr(0, head) + "..." + text.substr(tail);
}

std::map<std::string, std::string> table_values(const Config& config) {
  std::map<std::string, std::string> values;
  for (const TextCell& cell : config.cells()) {
    const std::string table = "cells." + cell.name + ".";
    values[table + "states"] = toml_text(cell.states);
    values[table + "step"] = toml_text(cell.step);
    values[table + "y"] = toml_text(cell.y);
  }
  std::size_t n = 0;
  for (const ParameterGroup& group : config.groups()) {
    const std::string table = fmt::format("groups.{}.", ++n);
    values[table + "match"] = toml_text(group.match);
    values[table + "lr_scale"] = toml_text(group.lr_scale);
    if (group.weight_decay) values[table + "weight_decay"] = toml_text(*group.weight_decay);
  }
  return values;
}

}  // namespace

std::vector<ConfigChange> config_changes(const Config& was, const Config& is) {
  std::vector<ConfigChange> changes;
  const auto compare = [&](const std::string& key, const std::string& before, const std::string& now) {
    if (before != now) changes.push_back({key, shortened_value(before), shortened_value(now), is_free(key, was, is)});
  };
  for (const KeySpec& key : config_schema())
    if (key.uses & (was.uses() | is.uses()))
      compare(std::string(key.path), toml_text(was.value(key.path)), toml_text(is.value(key.path)));
  const std::map<std::string, std::string> before = table_values(was), now = table_values(is);
  std::set<std::string> keys;
  for (const auto& [key, value] : before) keys.insert(key);
  for (const auto& [key, value] : now) keys.insert(key);
  const auto at = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("none") : found->second;
  };
  for (const std::string& key : keys) compare(key, at(before, key), at(now, key));
  return changes;
}

std::string change_line(const ConfigChange& change) {
  return fmt::format("config change: {} = {} (was {})", change.key, change.is, change.was);
}

void refuse_changes(const std::vector<ConfigChange>& changes, const std::string& folder) {
  std::string refused;
  for (const ConfigChange& c : changes)
    if (!c.allowed) refused += fmt::format("{}{} from {} to {}", refused.empty() ? "" : ", ", c.key, c.was, c.is);
  if (refused.empty()) return;
  throw Error(ErrorKind::usage, folder, fmt::format("a resumed run cannot change {}", refused),
              "Train in another folder, or keep the run's values: unroll train --resume --out " + shell_word(folder));
}

std::vector<ConfigChange> changes_since_run(const std::string& folder, const Config& config) {
  const std::string path = folder + "/config.toml";
  if (!disk().exists(path)) return {};
  std::vector<ConfigChange> changes = config_changes(load_config({}, path), config);
  if (holds_checkpoint(folder)) refuse_changes(changes, folder);
  return changes;
}

void keep_config(const std::string& folder, std::int64_t update, const Config& config,
                 const std::vector<ConfigChange>& changes) {
  constexpr std::size_t k_max_config_bytes = std::size_t{1} << 20;
  const std::string path = folder + "/config.toml";
  const bool is_new = !disk().exists(path);
  if (!is_new && changes.empty()) return;
  const std::string old = fmt::format("{}/config-before-{}.toml", folder, update);
  if (!is_new && !disk().exists(old)) write_text_file(old, read_text_file(path, k_max_config_bytes));
  save_config(config, path);
}

}  // namespace unroll::cli
