// SPDX-License-Identifier: Apache-2.0
// Options of the commands that lead from data to predictions: new, data, train, eval, predict, generate.
#include "frontends/cli/options/command_options.h"

namespace unroll::cli {
namespace {

void add_decoding(CLI::App& app, Options& o) {
  group(app, "Decoding of a translate task");
  add_integer(app, "--beam", o.decode.beam, "Beam size; 1 decodes greedily.", {1, 1000, 4});
  add_number(app, "--length-penalty", o.decode.length_penalty,
             "Length penalty of beam search; values above 0 favor longer outputs, 0.6 is common.", {-10, 10, 0.6});
  add_integer(app, "--no-repeat-ngram", o.decode.no_repeat_ngram, "Never repeat N tokens in a row; 0 allows it.",
              {0, 1000, 3});
}

}  // namespace

void add_new(CLI::App& app, Options& o) {
  std::vector<std::string> kinds;
  for (const TaskKind& kind : task_kinds()) kinds.emplace_back(kind.word);
  app.add_option("kind", o.kind, "Task to set up.")->type_name("")->check(one_of(kinds));
  app.add_option("path", o.path, "Folder for config.toml and sample data, or a config file that ends in .toml.")
      ->type_name("");
  group(app, "Data");
  add_text(app, "--data", o.data, "FILE", "Use this data file instead of sample data.");
  add_set(app, o);
  group(app, "Output");
  app.add_flag("--reference", o.reference, "Print the reference of all config keys (docs/config.md).");
  app.footer(
      "  unroll new language-model demo\n"
      "  unroll new forecast sales.toml --data sales.csv --set data.column=units\n"
      "  unroll train demo/config.toml --out runs/demo\n"
      "\n"
      "docs/data.md describes the data file of each task.");
}

void add_data(CLI::App& app, Options& o) {
  add_operand(app, "what", o.what, "What to do with the data.")->check(one_of({"check"}));
  add_operand(app, "config", o.config, "Config file.");
  group(app, "Data");
  app.add_flag("--strict", o.strict, "Exit with code 3 for warnings too.");
  add_set(app, o);
  group(app, "Output");
  add_json(app, o);
  app.footer("  unroll data check docs/examples/char-lm.toml\n"
             "  unroll data check docs/examples/digits.toml --strict --json\n"
             "\n"
             "docs/data.md describes the data file of each task.");
}

void add_train(CLI::App& app, Options& o) {
  add_operand(app, "config", o.config, "Config file; `unroll new` writes one. With --resume, default: the run's own.")
      ->required(false);
  group(app, "Training");
  app.add_flag("--resume", o.resume, "Continue from the run's last checkpoint; the result is bit-identical.");
  add_integer(app, "--max-updates", o.max_updates, "the config's train.max_updates",
              "Stop after update N; a larger N than planned extends the run.", {.lowest = 1, .example = 1000});
  add_seed(app, o);
  add_set(app, o);
  group(app, "Checks that run instead of training and write nothing");
  app.add_flag("--find-lr", o.find_lr, "Run a learning-rate range test and suggest a rate.");
  app.add_flag("--verify-resume", o.verify_resume,
               "Check that --max-updates updates (20) give the same bits with and without a stop and resume.");
  add_integer(app, "--check-precision", o.check_precision, "off",
              "Compare the losses of N updates in train.precision with those in f32.", {.lowest = 1, .example = 100});
  add_number(app, "--tolerance", o.tolerance, "Largest relative loss difference that --check-precision accepts.",
             {0, 1, 0.01});
  group(app, "Output");
  add_text(app, "--out", o.out, "FOLDER", "Run folder to write. Required unless a check runs.");
  add_explain(app, o);
  add_json(app, o);
  add_config_device(app, o);
  add_memory_limit(app, o);
  app.footer(
      "  unroll train docs/examples/char-lm.toml --out runs/char-lm\n"
      "  unroll train --resume --out runs/char-lm --max-updates 2000\n"
      "  unroll train docs/examples/char-lm.toml --find-lr\n"
      "\n"
      "The first Ctrl-C finishes the update, saves a checkpoint and exits (code 130).\n"
      "The second exits at once.");
}

void add_eval(CLI::App& app, Options& o) {
  add_operand(app, "run", o.config, "Run folder, or a config with --weights.");
  group(app, "Model");
  add_weights(app, o);
  add_set(app, o);
  group(app, "Data");
  add_choice(app, "--split", o.split, "Part of the data to evaluate.", {"train", "validation", "test"});
  add_decoding(app, o);
  group(app, "Output");
  add_text(app, "--svg", o.svg, "FILE", "Draw forecasts, the confusion matrix or attention maps to this SVG file.");
  add_explain(app, o);
  add_json(app, o);
  add_config_device(app, o);
  app.footer("  unroll eval runs/char-lm\n"
             "  unroll eval runs/char-lm --split validation --json\n"
             "  unroll eval docs/examples/char-lm.toml --weights model.safetensors");
}

void add_predict(CLI::App& app, Options& o) {
  add_operand(app, "run", o.config, "Run folder, or a config with --weights.");
  group(app, "Model");
  add_weights(app, o);
  add_set(app, o);
  group(app, "Data");
  add_text(app, "--input", o.input, "FILE", "File to predict from.", "-, standard input");
  add_decoding(app, o);
  group(app, "Output");
  add_text(app, "--output", o.output, "FILE", "File to write; replaced when complete.", "-, standard output");
  app.add_option("--format", o.format, "Format of the output.")
      ->type_name("NAME")
      ->default_str("by the name of --output, else by task")
      ->check(one_of({"csv", "tsv", "jsonl", "text"}));
  add_text(app, "--svg", o.svg, "FILE",
           "Draw to this SVG file. forecast: the series and its forecast; classify, document: class probabilities of "
           "the first lines; translate: attention for the first line.");
  add_integer(app, "--top-k", o.top_k, "Labels to print with their probabilities; for classify and document.",
              {1, 65536, 3})
      ->default_str("1");
  add_integer(app, "--horizon", o.horizon, "the model's", "Time steps to predict; for forecast.", {1, 1000000, 12});
  add_explain(app, o);
  add_json(app, o, "Print one JSON object per line, as --format jsonl.");
  add_config_device(app, o);
  app.footer(
      "  unroll predict runs/reviews --input new.txt --output labels.csv --top-k 3\n"
      "  echo \"in the beginning god created\" | unroll predict runs/restore");
}

void add_generate(CLI::App& app, Options& o) {
  add_operand(app, "run", o.config, "Run folder of a language model, or a config with --weights.");
  group(app, "Model");
  add_weights(app, o);
  group(app, "Sampling");
  add_text(app, "--prompt", o.prompt, "TEXT", "Text to continue.")->default_str("a newline");
  app.add_flag("--echo", o.echo, "Print the prompt before the text.");
  add_integer(app, "--length", o.length, "Number of tokens to generate.", {0, 1e8, 200});
  add_number(app, "--temperature", o.temperature, "Sampling temperature; 0 takes the most likely token.",
             {0, 100, 0.8});
  add_integer(app, "--top-k", o.top_k, "Sample from the N most likely tokens; 0 uses all.", {0, 1e8, 40});
  add_number(app, "--top-p", o.top_p,
             "Sample from the fewest likely tokens whose probabilities sum to X (nucleus sampling).", {1e-9, 1, 0.9});
  add_integer(app, "--seed", o.seed, "the config's train.seed", "Seed of sampling: the same seed, the same text.",
              {.lowest = 0, .example = 1});
  group(app, "Output");
  add_explain(app, o);
  add_json(app, o, "Print one JSON object with prompt and text at the end.");
  add_config_device(app, o);
  app.footer("  unroll generate runs/char-lm --prompt \"And \" --length 200\n"
             "  unroll generate runs/char-lm --temperature 0.5 --top-k 20 --seed 1");
}

}  // namespace unroll::cli
