// SPDX-License-Identifier: Apache-2.0
// Loads a config file and applies the settings of a command line to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/config/config.h"

namespace unroll::cli {

// A config, and the command-line options that override it.
struct ConfigArguments {
  std::string config;                 // config file or run folder
  std::vector<std::string> settings;  // --set
  std::string backend;                // empty: the config's
  std::optional<std::int64_t> threads;
  std::optional<std::int64_t> seed;
  std::string memory_limit;
};
// A trained model: the parameters of a run folder, or of a file plus a config.
struct RunArguments : ConfigArguments {
  std::string weights;
  std::string checkpoint = "best";
};
// Loads the config file at `path` and applies --set, --backend, --threads, --memory-limit and --seed.
Config load_config(const ConfigArguments& arguments, const std::string& path);
// Reads a file that is neither a run folder nor a config. Throws Error(input_file) if it is not graph text.
std::string read_graph_text(const std::string& path);
// For a command without a config file.
std::string backend_or(const ConfigArguments& arguments, const std::string& fallback);

}  // namespace unroll::cli
