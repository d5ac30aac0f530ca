// SPDX-License-Identifier: Apache-2.0
// Options that several commands share, and their argument structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/options/option_kinds.h"
#include "frontends/config/run/config_file.h"
#include "unroll/tasks/tasks.h"

namespace unroll::cli {

// Step-by-step inference.
struct StepArguments {
  std::int64_t lanes = 1;
  std::int64_t chunk = 1;
  std::string weights_dtype = "f32";
  double seconds = 3;
};

// --explain and --json.
struct OutputArguments {
  bool explain = false;
  bool json = false;
};

// Places the options added after this call under that heading in --help.
void group(CLI::App& app, const char* heading);
void add_run(CLI::App& app, RunArguments& o);  // the operand RUN, and --weights, --checkpoint, --set
void add_weights(CLI::App& app, RunArguments& o);   // --weights, --checkpoint
void add_set(CLI::App& app, ConfigArguments& o);
void add_seed(CLI::App& app, ConfigArguments& o);
void add_memory_limit(CLI::App& app, ConfigArguments& o);
void add_precision(CLI::App& app, std::string& to);
void add_decoding(CLI::App& app, DecodeOptions& to);  // for a translate task
inline constexpr const char* k_json_doc = "Print one JSON object on stdout.";
void add_json(CLI::App& app, bool& to, const char* doc = k_json_doc);
void add_output(CLI::App& app, OutputArguments& o, const char* json_doc = k_json_doc);  // --explain, --json
// Heading "Machine": --backend and --threads.
void add_device(CLI::App& app, ConfigArguments& o, const char* backend, const char* threads);
void add_config_device(CLI::App& app, ConfigArguments& o);
void add_lanes(CLI::App& app, StepArguments& o);  // --lanes, --chunk, --weights-dtype

}  // namespace unroll::cli
