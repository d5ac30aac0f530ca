// SPDX-License-Identifier: Apache-2.0
// Load a config file and apply the settings of a command line to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/config/config.h"

namespace unroll::cli {

// A config, and what the command line puts on top of it.
struct ConfigArguments {
  std::string config;                 // config file, or run folder
  std::vector<std::string> settings;  // --set
  std::string backend;                // empty: the config's
  std::optional<std::int64_t> threads;
  std::optional<std::int64_t> seed;
  std::string memory_limit;
};
// A trained model: the parameters of a run folder, or those of a file with a config.
struct RunArguments : ConfigArguments {
  std::string weights;
  std::string checkpoint = "best";
};
// The config file at `path` with --set, --backend, --threads, --memory-limit and --seed on top.
Config load_config(const ConfigArguments& arguments, const std::string& path);
// Of a file that is neither a run folder nor a config. Throws Error(input_file) when it is not the text of a graph.
std::string read_graph_text(const std::string& path);
// Of a command without a config file.
std::string backend_or(const ConfigArguments& arguments, const std::string& fallback);

}  // namespace unroll::cli
