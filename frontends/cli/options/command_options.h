// SPDX-License-Identifier: Apache-2.0
// The options of each command, one function per command: options_training.cc, options_analysis.cc, options_deploy.cc.
#pragma once

#include "frontends/cli/options/option_kinds.h"
#include "frontends/cli/options/options.h"

namespace unroll::cli {

void add_new(CLI::App& app, Options& o);
void add_data(CLI::App& app, Options& o);
void add_train(CLI::App& app, Options& o);
void add_eval(CLI::App& app, Options& o);
void add_predict(CLI::App& app, Options& o);
void add_generate(CLI::App& app, Options& o);

void add_inspect(CLI::App& app, Options& o);
void add_explain_command(CLI::App& app, Options& o);
void add_profile(CLI::App& app, Options& o);
void add_compare(CLI::App& app, Options& o);
void add_report(CLI::App& app, Options& o);
void add_lever(CLI::App& app, Options& o);

void add_stream(CLI::App& app, Options& o);
void add_run(CLI::App& app, Options& o);
void add_bench(CLI::App& app, Options& o);
void add_doctor(CLI::App& app, Options& o);
void add_completion(CLI::App& app, Options& o);

// Shared by commands. The options that follow a call of group() stand under that heading in --help.
void group(CLI::App& app, const char* heading);
// --weights, --checkpoint: the parameters of a run folder or of a file.
void add_weights(CLI::App& app, Options& o);
void add_set(CLI::App& app, Options& o);
void add_seed(CLI::App& app, Options& o);
void add_memory_limit(CLI::App& app, Options& o);
void add_explain(CLI::App& app, Options& o);
void add_json(CLI::App& app, Options& o, const char* doc = "Print one JSON object on stdout.");
// Heading "Machine": --backend and --threads.
void add_device(CLI::App& app, Options& o, const char* backend, const char* threads);
void add_config_device(CLI::App& app, Options& o);
// --lanes, --chunk, --weights-dtype of step-by-step inference.
void add_lanes(CLI::App& app, Options& o);

}  // namespace unroll::cli
