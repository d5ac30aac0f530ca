// SPDX-License-Identifier: Apache-2.0
// The config that a run is resumed with, compared with the config in its folder.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/config/config.h"

namespace unroll::cli {

struct ConfigChange {
  std::string key;      // "train.lr", "cells.mine.step"
  std::string was, is;  // as TOML, shortened; "none" for a table key that is absent
  bool allowed = false; // in a resumed run
};
// In the order of the schema, tables last.
std::vector<ConfigChange> config_changes(const Config& was, const Config& is);
// "config change: train.lr = 0.5 (was 0.01)"
std::string change_line(const ConfigChange& change);
// Throws Error(usage) that names each change that is not allowed, with both values.
void refuse_changes(const std::vector<ConfigChange>& changes, const std::string& folder);

// Writes the old config to config-before-UPDATE.toml, then the new one to config.toml. An existing
// config-before-UPDATE.toml stays: no update was saved since.
void replace_config(const std::string& folder, std::int64_t update, const Config& config);

}  // namespace unroll::cli
