// SPDX-License-Identifier: Apache-2.0
// Options that several commands have, and the arguments that they fill.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/config/config.h"
#include "frontends/cli/options/option_kinds.h"
#include "unroll/tasks.h"

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
// Step-by-step inference.
struct StepArguments {
  std::int64_t lanes = 1;
  std::int64_t chunk = 1;
  std::string weights_dtype = "f32";
  double seconds = 3;
};

// The options that follow a call of group() stand under that heading in --help.
void group(CLI::App& app, const char* heading);
void add_weights(CLI::App& app, RunArguments& o);   // --weights, --checkpoint
void add_set(CLI::App& app, ConfigArguments& o);
void add_seed(CLI::App& app, ConfigArguments& o);
void add_memory_limit(CLI::App& app, ConfigArguments& o);
void add_precision(CLI::App& app, std::string& to);
void add_decoding(CLI::App& app, DecodeOptions& to);  // of a translate task
void add_explain(CLI::App& app, bool& to);
void add_json(CLI::App& app, bool& to, const char* doc = "Print one JSON object on stdout.");
// Heading "Machine": --backend and --threads.
void add_device(CLI::App& app, ConfigArguments& o, const char* backend, const char* threads);
void add_config_device(CLI::App& app, ConfigArguments& o);
void add_lanes(CLI::App& app, StepArguments& o);  // --lanes, --chunk, --weights-dtype

// The config file at `path` with --set, --backend, --threads, --memory-limit and --seed on top.
Config load_config(const ConfigArguments& arguments, const std::string& path);
// Of a file that is neither a run folder nor a config. Throws Error(input_file) when it is not the text of a graph.
std::string read_graph_text(const std::string& path);
// Of a command without a config file.
std::string backend_or(const ConfigArguments& arguments, const std::string& fallback);

}  // namespace unroll::cli
