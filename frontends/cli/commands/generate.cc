// SPDX-License-Identifier: Apache-2.0
// `unroll generate`: generates text with a run folder's language model, streamed to stdout or as one JSON object.
#include <fmt/format.h>

#include <cstdio>

#include "frontends/cli/commands.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/standard_files.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"

namespace unroll::cli {
namespace {

constexpr const char* k_prompt = "\n";

struct GenerateArguments : RunArguments, OutputArguments {
  std::string prompt = k_prompt;
  bool echo = false;
  std::int64_t length = 400;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1;
};

void add_options(CLI::App& app, GenerateArguments& o) {
  add_operand(app, "run", o.config, "Run folder of a language model, or a config with --weights.");
  group(app, "Model");
  add_weights(app, o);
  group(app, "Sampling");
  show_default(add_text(app, "--prompt", o.prompt, "TEXT", "Text to continue."), "a newline");
  add_flag(app, "--echo", o.echo, "Print the prompt before the text.");
  add_integer(app, "--length", o.length, "Number of tokens to generate.", {0, 1e8, 200});
  add_number(app, "--temperature", o.temperature, "Sampling temperature; 0 takes the most likely token.",
             {0, 100, 0.8});
  add_integer(app, "--top-k", o.top_k, "Sample from the N most likely tokens; 0 uses all.", {0, 1e8, 40});
  add_number(app, "--top-p", o.top_p,
             "Sample from the fewest likely tokens whose probabilities sum to X (nucleus sampling).", {1e-9, 1, 0.9});
  add_integer(app, "--seed", o.seed, "the config's train.seed", "Seed of sampling: the same seed, the same text.",
              {.lowest = 0, .example = 1});
  group(app, "Output");
  add_output(app, o, "Print one JSON object with prompt and text at the end.");
  add_config_device(app, o);
  add_examples(app,
               "  unroll generate runs/char-lm --prompt \"And \" --length 200\n"
               "  unroll generate runs/char-lm --temperature 0.5 --top-k 20 --seed 1");
}

std::string quoted(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", token);
  return text;
}

int execute(const GenerateArguments& options) {
  refuse_data_settings(options, "generate");
  const RunFolder run = open_run(options);
  if (run.config.text("task.kind") != "language-model") {
    run.config.refuse("task.kind", "this run has no language model", "Name the run folder of a language model");
  }
  const ExplainedBackend backend(options.explain, open_backend(run.config, options.explain));
  const GenerateOptions generate_options{.prompt = options.prompt,
                                         .length = options.length,
                                         .temperature = options.temperature,
                                         .top_k = options.top_k,
                                         .top_p = options.top_p,
                                         .seed = static_cast<std::uint64_t>(options.seed.value_or(0))};
  const std::vector<std::string> unknown = unknown_tokens(run.model.metadata, options.prompt);
  if (!unknown.empty() && options.prompt != k_prompt)
    print_line(fmt::format("the vocabulary lacks {} of the prompt; the model reads each as an unknown {}",
                           quoted(unknown), run.config.text("data.tokens") == "words" ? "word" : "character"));
  std::string all = options.echo ? options.prompt : "";
  if (!options.json) std::fputs(all.c_str(), stdout);
  generate(run.model.metadata, run.model.tensors, *backend, generate_options, [&](std::string_view text) {
    if (options.json) {
      all += text;
      return;
    }
    write_output(text);
    flush_output();
  });
  if (options.json) {
    backend.print(Report().add("prompt", options.prompt).add("text", all).add("unknown", unknown), true);
    return 0;
  }
  write_output("\n");
  flush_output();
  backend.print_after(false);
  return 0;
}

}  // namespace

const Command generate_command = command<GenerateArguments>(
    k_begin, "generate", "Generate text with a trained language model.", add_options, execute);

}  // namespace unroll::cli
