// SPDX-License-Identifier: Apache-2.0
// Compares the config for resuming a run with the config in its folder.
#pragma once

#include <string>
#include <vector>

#include "frontends/config/config.h"

namespace unroll::cli {

struct ConfigChange {
  std::string key;      // "train.lr", "cells.mine.step"
  std::string was, is;  // as TOML, shortened; "none" for a table key that is absent
  bool allowed = false; // in a resumed run
};
// Returns the changes in the order of the schema, tables last.
std::vector<ConfigChange> config_changes(const Config& was, const Config& is);
// "config change: train.lr = 0.5 (was 0.01)"
std::string change_line(const ConfigChange& change);
// Throws Error(usage), which lists each disallowed change with both values.
void refuse_changes(const std::vector<ConfigChange>& changes, const std::string& folder);

// Compares the run in the folder, if there is one, with a config to resume it. Throws as refuse_changes if the run has
// a checkpoint, which fixes those keys.
std::vector<ConfigChange> changes_since_run(const std::string& folder, const Config& config);

// Writes config.toml of a run that continues after `update` with these changes. The old one becomes
// config-before-UPDATE.toml. An existing config-before-UPDATE.toml stays, because no update was saved since.
void keep_config(const std::string& folder, std::int64_t update, const Config& config,
                 const std::vector<ConfigChange>& changes);

}  // namespace unroll::cli
