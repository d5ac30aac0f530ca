// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/run/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <variant>

#include "frontends/cli/run/run_folder.h"
#include "frontends/cli/terminal/report.h"
#include "unroll/error.h"
#include "unroll/vfs.h"

namespace unroll::cli {
namespace {

// The checkpoint fits whatever these keys are. All others are fixed: the model, the data, the optimizer's state and the
// position in the data depend on them. data.path may change because files move; the trainer compares their content. So
// may the files of k_split_files, but not a share of the data.
constexpr std::string_view k_free[] = {
    "data.path",
    "data.memory_limit",
    "model.dropout",
    "model.variational",
    "model.recurrent_dropout",
    "model.weight_drop",
    "model.activation_penalty",
    "model.temporal_penalty",
    "train.scheduled_sampling",
    "train.sampling_schedule",
    "train.sampling_batches",
    "train.label_smoothing",
    "train.lr",
    "train.beta1",
    "train.beta2",
    "train.epsilon",
    "train.alpha",
    "train.weight_decay",
    "train.decay_vectors",
    "train.schedule",
    "train.warmup",
    "train.final_fraction",
    "train.cooldown",
    "train.lr_factor",
    "train.step_every",
    "train.plateau_patience",
    "train.loss_scale_every",
    "train.clip_norm",
    "train.clip_value",
    "train.clip_adaptive",
    "train.average_decay",
    "train.average_start",
    "train.max_updates",
    "train.epochs",
    "train.max_minutes",
    "train.validate_every",
    "train.validation_batches",
    "train.patience",
    "train.checkpoint_every",
    "train.keep",
    "train.log_every",
    "train.watch_every",
    "train.on_bad",
    "train.prefetch",
    "train.max_bad_updates",
    "train.max_rollbacks",
};

constexpr std::string_view k_split_files[] = {"data.validation", "data.test"};

bool names_file(const Config& config, std::string_view key) {
  return std::holds_alternative<std::string>(config.value(key));
}

bool is_free(std::string_view key, const Config& was, const Config& is) {
  if (std::find(std::begin(k_split_files), std::end(k_split_files), key) != std::end(k_split_files))
    return names_file(was, key) && names_file(is, key);
  return key.starts_with("run.") || std::find(std::begin(k_free), std::end(k_free), key) != std::end(k_free);
}

std::string value_text(const Config& config, const KeySpec& key) {
  switch (key.type) {
    case KeyType::boolean: return toml_text(config.boolean(key.path));
    case KeyType::integer: return toml_text(config.integer(key.path));
    case KeyType::number: return toml_text(config.number(key.path));
    case KeyType::text: return toml_text(config.text(key.path));
    case KeyType::texts: return toml_text(config.texts(key.path));
    case KeyType::number_or_text: return toml_text(config.value(key.path));
  }
  return {};
}

// So that a line with both values fits a terminal.
std::string shortened(const std::string& text) {
  constexpr std::size_t k_most = 24;
  return text.size() <= k_most ? text : text.substr(0, k_most / 2 - 1) + "..." + text.substr(text.size() - k_most / 2);
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
    if (before != now) changes.push_back({key, shortened(before), shortened(now), is_free(key, was, is)});
  };
  for (const KeySpec& key : config_schema())
    if (key.uses & (was.uses() | is.uses())) compare(std::string(key.path), value_text(was, key), value_text(is, key));
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
              "Keep the run's values, or train in another folder");
}

void replace_config(const std::string& folder, std::int64_t update, const Config& config) {
  constexpr std::size_t k_max_config_bytes = std::size_t{1} << 20;
  const std::string path = folder + "/config.toml";
  const std::string old = fmt::format("{}/config-before-{}.toml", folder, update);
  if (disk().exists(path) && !disk().exists(old)) write_file(old, read_text_file(path, k_max_config_bytes));
  save_config(config, path);
}

}  // namespace unroll::cli
