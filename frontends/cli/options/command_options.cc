// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/options/command_options.h"

#include <CLI/CLI.hpp>

namespace unroll::cli {

void group(CLI::App& app, const char* heading) { app.option_defaults()->group(heading); }

void add_weights(CLI::App& app, RunArguments& o) {
  add_choice(app, "--checkpoint", o.checkpoint, "Checkpoint of the run folder to load.", {"best", "last"});
  add_text(app, "--weights", o.weights, "FILE",
           "Load the parameters from this safetensors file; name a config instead of a run folder.",
           "the run folder's");
}

void add_run(CLI::App& app, RunArguments& o) {
  add_operand(app, "run", o.config, "Run folder, or a config with --weights.");
  group(app, "Model");
  add_weights(app, o);
  add_set(app, o);
}

void add_set(CLI::App& app, ConfigArguments& o) {
  app.add_option("--set", o.settings, "Override a key of the config. May be repeated.")
      ->type_name("SECTION.KEY=VALUE")
      ->expected(1)
      ->take_all();
}

void add_seed(CLI::App& app, ConfigArguments& o) {
  add_integer(app, "--seed", o.seed, "the config's train.seed, or 0", "Seed of all random numbers.",
              {.lowest = 0, .example = 1});
}

void add_memory_limit(CLI::App& app, ConfigArguments& o) {
  add_text(app, "--memory-limit", o.memory_limit, "SIZE",
           "Most memory an update may use, such as 2GiB. Activations that do not fit are recomputed.",
           "the config's run.memory_limit");
}

void add_precision(CLI::App& app, std::string& to) {
  add_text(app, "--precision", to, "NAME", "Precision: f32, tf32, bf16 or f16.", "the config's train.precision");
}

void add_decoding(CLI::App& app, DecodeOptions& to) {
  group(app, "Decoding of translate and summarize tasks");
  add_integer(app, "--beam", to.beam, "Beam size; 1 decodes greedily.", {1, 1000, 4});
  add_number(app, "--length-penalty", to.length_penalty,
             "Length penalty of beam search; values above 0 favor longer outputs, 0.6 is common.", {-10, 10, 0.6});
  add_integer(app, "--no-repeat-ngram", to.no_repeat_ngram, "Never repeat N tokens in a row; 0 allows it.",
              {0, 1000, 3});
  add_integer(app, "--min-length", to.min_length, "Write at least N tokens.", {0, 100000, 5});
  show_default(add_integer(app, "--max-length", to.max_length, "Write at most N tokens.", {1, 100000, 30}),
               "translate: twice the source's and 20; summarize: data.target_tokens");
  add_number(app, "--coverage-penalty", to.coverage_penalty,
             "Coverage penalty; values above 0 favor outputs that attend to more of the source.", {-10, 10, 0.2});
}

void add_json(CLI::App& app, bool& to, const char* doc) { app.add_flag("--json", to, doc); }

void add_output(CLI::App& app, OutputArguments& o, const char* json_doc) {
  app.add_flag("--explain", o.explain, "Print what the graph passes did and which kernels run.");
  add_json(app, o.json, json_doc);
}

void add_device(CLI::App& app, ConfigArguments& o, const char* backend, const char* threads) {
  group(app, "Machine");
  add_text(app, "--backend", o.backend, "NAME", "Backend that computes; `unroll doctor` lists them.", backend);
  add_integer(app, "--threads", o.threads, threads, "Worker threads; 0 uses every available processor.",
              {.lowest = 0, .highest = 4096, .example = 2});
}

void add_config_device(CLI::App& app, ConfigArguments& o) {
  add_device(app, o, "the config's run.backend", "the config's run.threads");
}

void add_lanes(CLI::App& app, StepArguments& o) {
  add_integer(app, "--lanes", o.lanes, "Independent sequences that step together (B).", {1, 1e6, 4});
  add_integer(app, "--chunk", o.chunk, "Time steps per call (T). More steps: higher throughput, higher latency.",
              {1, 1e6, 8});
  add_choice(app, "--weights-dtype", o.weights_dtype,
             "Type in which the weights are kept. Fewer bits are faster and less exact.", {"f32", "bf16", "int8"});
}

}  // namespace unroll::cli
