// SPDX-License-Identifier: Apache-2.0
// Options of the commands that show what a model is, does and costs: inspect, explain, profile, compare, report, lever.
#include "frontends/cli/options/command_options.h"

namespace unroll::cli {
namespace {

void add_precision(CLI::App& app, Options& o) {
  add_text(app, "--precision", o.precision, "NAME", "Precision: f32, tf32, bf16 or f16.",
           "the config's train.precision");
}

}  // namespace

void add_inspect(CLI::App& app, Options& o) {
  add_operand(app, "path", o.path, "Safetensors file, run folder, config (.toml) or graph text.");
  group(app, "Model");
  add_set(app, o);
  group(app, "Output");
  app.add_flag("--graph", o.print_graph, "Print the graph of a config or graph text.");
  app.add_flag("--dot", o.print_dot, "Print the graph for Graphviz.");
  add_json(app, o);
  app.footer("  unroll inspect runs/char-lm\n"
             "  unroll inspect lstm.toml --dot | dot -Tsvg > lstm.svg");
}

void add_explain_command(CLI::App& app, Options& o) {
  add_operand(app, "model", o.config, "Run folder or config file.");
  group(app, "Model");
  add_weights(app, o);
  add_set(app, o);
  add_seed(app, o);
  group(app, "Measurement");
  add_number(app, "--seconds", o.explain_seconds, "Seconds to time each plan, after 20 warm-up runs.",
             {0, 3600, 1});
  group(app, "Output");
  app.add_flag("--full", o.full, "Print every change that a pass made and every call too.");
  add_text(app, "--svg", o.svg, "FILE", "Draw the plans to this SVG file.");
  add_text(app, "--out", o.out, "FOLDER",
           "Write explain.json and plan.svg to this folder, such as the run's own: `report` shows them.");
  add_json(app, o);
  add_config_device(app, o);
  add_memory_limit(app, o);
  app.footer("  unroll explain runs/char-lm --svg plan.svg\n"
             "  unroll explain docs/examples/cells/slstm.toml --threads 1 --json");
}

void add_profile(CLI::App& app, Options& o) {
  add_operand(app, "model", o.config, "Run folder or config file.");
  group(app, "Model");
  add_weights(app, o);
  add_precision(app, o);
  add_set(app, o);
  add_seed(app, o);
  group(app, "Measurement");
  add_integer(app, "--updates", o.updates, "Updates to measure, after 20 warm-up updates.", {1, 100000, 50})
      ->default_str("20");
  add_text(app, "--trace", o.trace, "FILE",
           "Write a Chrome trace of three further updates, for chrome://tracing or ui.perfetto.dev.");
  add_integer(app, "--trace-events", o.trace_events, "Most events to keep per thread in the trace.",
              {1, 1e7, 20000});
  group(app, "Output");
  add_json(app, o);
  add_config_device(app, o);
  app.footer("  unroll profile docs/examples/char-lm.toml\n"
             "  unroll profile runs/char-lm --updates 50 --trace trace.json");
}

void add_compare(CLI::App& app, Options& o) {
  add_operand(app, "model", o.config, "Run folder, config file, or the graph text of a node that --save wrote.");
  group(app, "Model");
  add_weights(app, o);
  add_precision(app, o);
  add_text(app, "--input", o.input, "FILE", "Graph text: safetensors file with the inputs.");
  add_set(app, o);
  add_seed(app, o);
  group(app, "What to compare");
  add_texts(app, "--backend", o.backends, "NAMES",
            "Backends, comma-separated, such as reference,cpu. `reference`, or else the first, is the standard.",
            "all available");
  app.add_flag("--grad", o.grad, "Compare the gradients of all parameters too; dropout is on.");
  add_integer(app, "--updates", o.updates,
              "Compare the losses of N training updates and the parameters after them too.", {0, 100000, 5});
  add_texts(app, "--with", o.with, "NAMES", "Other libraries, comma-separated, on a config with [model] alone.")
      ->check(one_of({"torch", "onnxruntime"}));
  add_text(app, "--python", o.python, "COMMAND", "Python interpreter in which torch and onnxruntime are installed.");
  group(app, "Measurement");
  add_integer(app, "--runs", o.runs, "Timed runs of each backend; 0 skips timing.", {0, 10000, 5});
  add_integer(app, "--threads", o.threads, "0", "Worker threads of each backend; 0 uses every available processor.",
              {0, 4096, 2});
  group(app, "Output");
  add_text(app, "--save", o.save, "FOLDER", "Write the first node that differs, with its inputs, to this folder.");
  add_explain(app, o);
  add_json(app, o);
  app.footer("  unroll compare runs/char-lm --grad\n"
             "  unroll compare lstm.toml --backend reference,cpu --grad --updates 5 --json\n"
             "  unroll compare lstm.toml --with torch --python venv/bin/python --grad\n"
             "\n"
             "Exit code 9: results differ; the message names the first node that differs.");
}

void add_report(CLI::App& app, Options& o) {
  add_operands(app, "sources", o.sources,
               "Run folders, --out folders of lever, and saved output of compare, lever, explain, bench or generate.");
  group(app, "Output");
  add_text(app, "--output", o.output, "FILE", "HTML file to write.", "report.html");
  app.add_flag("--no-examples", o.no_examples, "Do not evaluate the runs: no predictions and no test metrics.");
  add_json(app, o);
  app.footer("  unroll report runs/a runs/b\n"
             "  unroll report runs/a ablation --output report.html");
}

void add_lever(CLI::App& app, Options& o) {
  add_operand(app, "config", o.config, "Config file of the baseline.");
  add_operands(app, "changes", o.levers,
               "Changes of config keys, such as hidden=512. Join changes that belong together with a comma: "
               "batch=64,lr=0.008.");
  group(app, "Training");
  add_integer(app, "--seeds", o.lever.seeds, "Runs per change, from train.seed on.", {1, 1000, 5});
  add_number(app, "--minutes", o.lever.minutes, "Time limit for all runs together.", {0.001, 1e6, 10});
  add_seed(app, o);
  add_set(app, o);
  group(app, "Output");
  add_text(app, "--out", o.out, "FOLDER", "Write lever.json and a run folder per run to this folder.");
  add_json(app, o);
  add_config_device(app, o);
  app.footer(
      "  unroll lever docs/examples/char-lm.toml cell=gru hidden=512 dropout=0.2\n"
      "  unroll lever docs/examples/digits.toml batch=64,lr=0.006 layers=2 --seeds 5\n"
      "\n"
      "`unroll ablation` and `unroll ablate` are other names of this command.");
}

}  // namespace unroll::cli
