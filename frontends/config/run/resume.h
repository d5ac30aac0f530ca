// SPDX-License-Identifier: Apache-2.0
// The config that a run is resumed with, compared with the config in its folder.
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
// In the order of the schema, tables last.
std::vector<ConfigChange> config_changes(const Config& was, const Config& is);
// "config change: train.lr = 0.5 (was 0.01)"
std::string change_line(const ConfigChange& change);
// Throws Error(usage) that names each change that is not allowed, with both values.
void refuse_changes(const std::vector<ConfigChange>& changes, const std::string& folder);

// Between the run in the folder, if there is one, and a config to resume it with. Throws as refuse_changes where the
// run has a checkpoint, which must follow.
std::vector<ConfigChange> changes_since_run(const std::string& folder, const Config& config);

// config.toml of a run that goes on after `update` with these changes. The old one becomes config-before-UPDATE.toml;
// an existing config-before-UPDATE.toml stays: no update was saved since.
void keep_config(const std::string& folder, std::int64_t update, const Config& config,
                 const std::vector<ConfigChange>& changes);

}  // namespace unroll::cli
