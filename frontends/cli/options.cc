// SPDX-License-Identifier: Apache-2.0
// The option tree: one function per command.
#include "frontends/cli/options.h"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace unroll::cli {
namespace {

void add_json(CLI::App& app, Options& o) { app.add_flag("--json", o.json, "print one JSON object on stdout"); }

void add_device(CLI::App& app, Options& o) {
  app.add_option("--backend", o.backend, "cpu, reference, ... (see `unroll doctor`)");
  app.add_option("--threads", o.threads, "threads of the backend; 0: as many as the process may run on")
      ->check(CLI::Range(0, 4096));
}

void add_seed(CLI::App& app, Options& o) {
  app.add_option("--seed", o.seed, "the one source of randomness")->check(CLI::NonNegativeNumber);
}

void add_set(CLI::App& app, Options& o) {
  app.add_option("--set", o.settings, "section.key=value, over the config; may be repeated")->expected(1)->take_all();
}

void add_explain(CLI::App& app, Options& o) {
  app.add_flag("--explain", o.explain, "also what the passes did and why, and which kernels run");
}

void add_doctor(CLI::App& app, Options& o) {
  app.add_flag("--no-self-test", o.no_self_test, "only what the machine says of itself: starts no work");
  add_json(app, o);
  app.footer("Example:\n  unroll doctor --json");
}

void add_new(CLI::App& app, Options& o) {
  std::vector<std::string> kinds;
  for (const TaskKind& kind : task_kinds()) kinds.emplace_back(kind.word);
  app.add_option("kind", o.kind, "what is learnt")->check(CLI::IsMember(kinds));
  app.add_option("path", o.path, "a folder, which gets config.toml and sample data, or a file ending in .toml");
  app.add_option("--data", o.data, "use this data file instead of sample data");
  app.add_flag("--reference", o.reference, "print docs/config.md, all keys of all kinds");
  add_set(app, o);
  app.footer("Examples:\n  unroll new language-model demo\n  unroll train demo/config.toml --out runs/demo\n"
             "Data files: docs/data.md");
}

void add_memory_limit(CLI::App& app, Options& o) {
  app.add_option("--memory-limit", o.memory_limit,
                 "such as 2GiB: what needs more keeps fewer values and computes them again");
}

void add_data(CLI::App& app, Options& o) {
  app.add_option("what", o.what, "check: empty lines, lengths, duplicates, vocabulary, labels, numbers")
      ->required()
      ->check(CLI::IsMember({"check"}));
  app.add_option("config", o.config, "config file")->required();
  app.add_flag("--strict", o.strict, "warnings give exit code 3 as errors do");
  add_set(app, o);
  add_json(app, o);
  app.footer("Example:\n  unroll data check docs/examples/char-lm.toml\nData files: docs/data.md");
}

void add_train(CLI::App& app, Options& o) {
  app.add_option("config", o.config, "config file; with --resume, default: the run's own");
  app.add_option("--out", o.out, "run folder");
  app.add_flag("--verify-resume", o.verify_resume,
               "instead of training run --max-updates updates (20) straight and with a stop and a resume, and compare");
  app.add_flag("--find-lr", o.find_lr, "instead of training try learning rates and suggest one; writes nothing");
  app.add_option("--check-precision", o.check_precision,
                 "instead of training compare N updates in train.precision with the same in f32; writes nothing")
      ->check(CLI::PositiveNumber);
  app.add_option("--tolerance", o.tolerance, "of --check-precision: largest relative difference of the smoothed losses")
      ->check(CLI::PositiveNumber);
  app.add_flag("--resume", o.resume, "continue from the run's last checkpoint; the result is bit-identical");
  app.add_option("--max-updates", o.max_updates, "stop after update N; more than the config plans lengthens the run")
      ->check(CLI::PositiveNumber);
  add_memory_limit(app, o);
  add_seed(app, o);
  add_device(app, o);
  add_set(app, o);
  add_explain(app, o);
  add_json(app, o);
  app.footer(
      "Examples:\n  unroll train docs/examples/char-lm.toml --out runs/char-lm\n"
      "  unroll train --resume --out runs/char-lm --max-updates 2000\n"
      "  unroll train docs/examples/char-lm.toml --find-lr\n"
      "The first Ctrl-C finishes the update, saves and exits with 130; the second exits at once.");
}

void add_decoding(CLI::App& app, Options& o) {
  app.add_option("--beam", o.decode.beam, "translate: hypotheses kept; 1: always the likeliest token")
      ->check(CLI::Range(1, 1000));
  app.add_option("--length-penalty", o.decode.length_penalty, "translate: above 0 for longer texts, 0.6 is usual")
      ->check(CLI::Range(-10.0, 10.0));
  app.add_option("--no-repeat-ngram", o.decode.no_repeat_ngram, "translate: no N tokens in a row come twice; 0: may")
      ->check(CLI::Range(0, 1000));
}

void add_eval(CLI::App& app, Options& o) {
  app.add_option("run", o.config, "run folder, or with --weights a config")->required();
  app.add_option("--weights", o.weights, "safetensors with the parameters, instead of a run folder's");
  app.add_option("--split", o.split, "which part of the data")->check(CLI::IsMember({"train", "validation", "test"}));
  add_decoding(app, o);
  app.add_option("--checkpoint", o.checkpoint, "which weights of the folder")->check(CLI::IsMember({"best", "last"}));
  add_device(app, o);
  add_set(app, o);
  add_explain(app, o);
  add_json(app, o);
  app.footer("Examples:\n  unroll eval runs/char-lm --json\n"
             "  unroll eval docs/examples/char-lm.toml --weights runs/char-lm/best.safetensors");
}

void add_generate(CLI::App& app, Options& o) {
  app.add_option("run", o.config, "run folder of a language model, or with --weights a config")->required();
  app.add_option("--weights", o.weights, "safetensors with the parameters, instead of a run folder's");
  app.add_option("--length", o.length, "tokens: characters, or what data.tokens says")->check(CLI::Range(0, 100000000));
  app.add_option("--temperature", o.temperature, "0: always the likeliest token")->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-k", o.top_k, "only the so many likeliest tokens; 0: all")->check(CLI::Range(0, 100000000));
  app.add_option("--top-p", o.top_p, "of those the fewest likeliest whose probabilities sum to it")
      ->check(CLI::Range(1e-9, 1.0));
  app.add_option("--prompt", o.prompt, "text to continue");
  app.add_flag("--echo", o.echo, "print the prompt before the text");
  app.add_option("--checkpoint", o.checkpoint, "which weights of the folder")->check(CLI::IsMember({"best", "last"}));
  add_seed(app, o);
  add_device(app, o);
  add_explain(app, o);
  app.add_flag("--json", o.json, "one JSON object with prompt and text, when all is drawn");
  app.footer("Example:\n  unroll generate runs/char-lm --prompt \"And \" --length 200 --seed 1");
}

void add_predict(CLI::App& app, Options& o) {
  app.add_option("run", o.config, "run folder, or with --weights a config")->required();
  app.add_option("--weights", o.weights, "safetensors with the parameters, instead of a run folder's");
  app.add_option("--checkpoint", o.checkpoint, "which weights of the folder")->check(CLI::IsMember({"best", "last"}));
  app.add_option("--input", o.input, "file to predict from; - (stdin) when not given");
  app.add_option("--output", o.output, "file to write, replaced when it is complete; - (stdout) when not given");
  app.add_option("--format", o.format, "format of the output; default: from the name of --output, else by task")
      ->check(CLI::IsMember({"csv", "tsv", "jsonl", "text"}));
  app.add_option("--top-k", o.top_k, "classify, document: number of labels to print with their probabilities")
      ->check(CLI::Range(1, 65536));
  app.add_option("--horizon", o.horizon, "forecast: steps to predict; default: those of the model")
      ->check(CLI::Range(1, 1000000));
  add_decoding(app, o);
  add_device(app, o);
  add_set(app, o);
  add_explain(app, o);
  app.add_flag("--json", o.json, "the same as --format jsonl");
  app.footer(
      "Examples:\n  echo \"in the beginning god created the heaven and the earth\" | unroll predict runs/restore\n"
      "  unroll predict runs/reviews --input new.txt --output labels.csv --top-k 3");
}

void add_lanes(CLI::App& app, Options& o) {
  app.add_option("--lanes", o.lanes, "independent sequences that step together (B)")->check(CLI::Range(1, 1000000));
  app.add_option("--chunk", o.chunk, "steps per call (T)")->check(CLI::Range(1, 1000000));
  app.add_option("--weights-dtype", o.weights_dtype, "how weights are kept; fewer bits are faster and less exact")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
}

void add_stream(CLI::App& app, Options& o) {
  app.add_option("run", o.config, "run folder, or with --weights a config")->required();
  app.add_option("--weights", o.weights, "safetensors with the parameters, instead of a run folder's");
  app.add_option("--checkpoint", o.checkpoint, "which weights of the folder")->check(CLI::IsMember({"best", "last"}));
  app.add_option("--input", o.input, "a line of numbers per step; - (stdin) when not given");
  add_lanes(app, o);
  app.add_flag("--bench", o.bench, "time calls with random input instead");
  app.add_option("--seconds", o.seconds, "how long --bench repeats")->check(CLI::Range(0.0, 3600.0));
  add_seed(app, o);
  add_device(app, o);
  add_set(app, o);
  add_explain(app, o);
  app.add_flag("--json", o.json, "outputs as JSON, an array per line");
  app.footer(
      "Examples:\n  seq 10 | unroll stream runs/co2\n"
      "  unroll stream lstm.toml --weights w.safetensors --weights-dtype int8 --bench --json");
}

void add_run(CLI::App& app, Options& o) {
  app.add_option("config", o.config, "config file with [model]")->required();
  app.add_option("--weights", o.weights, "safetensors with the parameters, by PyTorch name")->required();
  app.add_option("--input", o.input, "safetensors with x [T,B,I], optional h0, c0, lengths; with --grad also d_y")
      ->required();
  app.add_option("--output", o.output, "safetensors that gets y, hn, cn; with --grad also d_*")->required();
  app.add_flag("--grad", o.grad, "also the gradients of <y,d_y> + <hn,d_hn> + <cn,d_cn>");
  add_device(app, o);
  add_set(app, o);
  add_explain(app, o);
  add_json(app, o);
  app.footer(
      "Example:\n  unroll run lstm.toml --weights w.safetensors --input in.safetensors --output out.safetensors "
      "--grad");
}

void add_inspect(CLI::App& app, Options& o) {
  app.add_option("path", o.path, "safetensors file, run folder, config (.toml) or graph text")->required();
  app.add_flag("--graph", o.print_graph, "print the graph of a config or graph text");
  app.add_flag("--dot", o.print_dot, "print it for Graphviz");
  add_set(app, o);
  add_json(app, o);
  app.footer("Examples:\n  unroll inspect runs/char-lm\n  unroll inspect lstm.toml --dot | dot -Tsvg > lstm.svg");
}

void add_bench(CLI::App& app, Options& o) {
  const auto size = CLI::Range(1, 1000000);
  app.add_option("--config", o.config, "take [model] and [cells.NAME] from this file; options below come first");
  app.add_option("--cell", o.cell, "rnn, gru, lstm, a registered cell or one of the config");
  app.add_option("--input", o.input_width, "width I of the input")->check(size);
  app.add_option("--hidden", o.hidden, "width H of the state")->check(size);
  app.add_option("--layers", o.layers, "stacked layers")->check(CLI::Range(1, 64));
  app.add_option("--batch", o.batch, "sequences (B)")->check(size);
  app.add_option("--steps", o.steps, "time steps (T)")->check(size);
  app.add_option("--lengths", o.lengths, "MIN:MAX:MEAN of the sequences' lengths; without it all have T steps");
  app.add_flag("--bidirectional", o.bidirectional, "both directions");
  app.add_option("--mode", o.mode, "infer: forward; train: forward and backward; stream: step by step; gemm: a product")
      ->check(CLI::IsMember({"infer", "train", "stream", "gemm"}));
  add_lanes(app, o);
  app.add_option("--shape", o.shape, "gemm: MxKxN of the product of a [M,K] and b [K,N]");
  app.add_flag("--transpose-a", o.transpose_a, "gemm: a is stored [K,M]");
  app.add_flag("--transpose-b", o.transpose_b, "gemm: b is stored [N,K]");
  app.add_flag("--constant-b", o.constant_b, "gemm: b is known when compiling, as weights are inside a loop");
  app.add_option("--save", o.save, "safetensors that gets parameters, inputs and results, for comparing");
  app.add_option("--seconds", o.seconds, "how long to repeat")->check(CLI::Range(0.0, 3600.0));
  add_memory_limit(app, o);
  add_seed(app, o);
  add_device(app, o);
  add_set(app, o);
  add_explain(app, o);
  add_json(app, o);
  app.footer(
      "Examples:\n  unroll bench --cell lstm --input 128 --hidden 256 --batch 32 --steps 100 --mode train --threads 2 "
      "--json\n  unroll bench --config docs/examples/cells/slstm.toml --hidden 512");
}

void add_lever(CLI::App& app, Options& o) {
  app.add_option("config", o.config, "config file: the baseline")->required();
  app.add_option("levers", o.levers,
                 "changes, as batch=64, section.key=value, or several that belong together: batch=64,lr=0.008")
      ->required();
  app.add_option("--seeds", o.lever.seeds, "runs of each, with train.seed and the seeds after it")
      ->check(CLI::Range(1, 1000));
  app.add_option("--minutes", o.lever.minutes, "time for all runs together")->check(CLI::Range(0.001, 1e6));
  app.add_option("--out", o.out, "folder that gets lever.json and a run folder for each run");
  add_seed(app, o);
  add_device(app, o);
  add_set(app, o);
  add_json(app, o);
  app.footer(
      "Examples:\n  unroll lever docs/examples/char-lm.toml batch=64 cell=gru precision=bf16 hidden=512 window=32\n"
      "  unroll lever docs/examples/digits.toml batch=64,lr=0.006 layers=2 --seeds 5 --minutes 2 --out levers");
}

// What a model that compare_model() makes starts from.
void add_start(CLI::App& app, Options& o) {
  app.add_option("--precision", o.precision, "f32, tf32, bf16 or f16, instead of train.precision");
  app.add_option("--weights", o.weights, "safetensors with the parameters");
  app.add_option("--checkpoint", o.checkpoint, "which weights of a run folder")->check(CLI::IsMember({"best", "last"}));
}

void add_compare(CLI::App& app, Options& o) {
  app.add_option("model", o.config, "run folder, config file, or the graph text of a node that --save wrote")
      ->required();
  app.add_option("--backend", o.backends,
                 "such as reference,cpu: `reference`, or else the first, is the standard; all when not given")
      ->delimiter(',');
  app.add_flag("--grad", o.grad, "also the gradients of all parameters; dropout acts, with the same masks everywhere");
  app.add_option("--updates", o.updates, "also the losses of N training updates and the parameters after them")
      ->check(CLI::Range(0, 100000));
  add_start(app, o);
  app.add_option("--input", o.input, "graph text: safetensors with its inputs");
  app.add_option("--save", o.save, "folder that gets the first node that differs, with its inputs");
  app.add_option("--with", o.with, "also torch or onnxruntime, for a config of built-in layers with [model] alone")
      ->delimiter(',')
      ->check(CLI::IsMember({"torch", "onnxruntime"}));
  app.add_option("--python", o.python, "the Python that has them");
  app.add_option("--runs", o.runs, "timed runs of each backend, in turns; 0: none")->check(CLI::Range(0, 10000));
  app.add_option("--threads", o.threads, "threads of each backend; 0: as many as the process may run on")
      ->check(CLI::Range(0, 4096));
  add_seed(app, o);
  add_set(app, o);
  add_explain(app, o);
  add_json(app, o);
  app.footer("Examples:\n  unroll compare runs/char-lm --grad\n"
             "  unroll compare lstm.toml --backend reference,cpu --grad --updates 5 --json\n"
             "Exit code 9: results differ; the first node that is to blame is named.");
}

void add_profile(CLI::App& app, Options& o) {
  app.add_option("model", o.config, "run folder, or config file")->required();
  app.add_option("--updates", o.updates, "measured ones, after 20 that are not (20)")->check(CLI::Range(1, 100000));
  app.add_option("--trace", o.trace, "file that gets three further updates as a Chrome trace, a lane for each thread");
  app.add_option("--trace-events", o.trace_events, "kept of each thread; further ones are counted")
      ->check(CLI::Range(1, 10000000));
  add_start(app, o);
  add_seed(app, o);
  add_device(app, o);
  add_set(app, o);
  add_json(app, o);
  app.footer("Examples:\n  unroll profile docs/examples/char-lm.toml\n"
             "  unroll profile runs/char-lm --updates 50 --trace trace.json\n"
             "chrome://tracing and ui.perfetto.dev open the trace.");
}

void add_explain_command(CLI::App& app, Options& o) {
  app.add_option("model", o.config, "run folder or config file")->required();
  app.add_flag("--full", o.full, "also print every change that a pass made and every call");
  app.add_option("--svg", o.svg, "file that gets the plans as a picture");
  app.add_option("--out", o.out,
                 "folder, such as the run's own, that gets explain.json and plan.svg: `report` shows them");
  app.add_option("--seconds", o.explain_seconds, "how long each plan runs to be timed, after 20 runs that do not count")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--weights", o.weights, "safetensors with the parameters");
  app.add_option("--checkpoint", o.checkpoint, "which weights of a run folder")->check(CLI::IsMember({"best", "last"}));
  add_memory_limit(app, o);
  add_seed(app, o);
  add_device(app, o);
  add_set(app, o);
  add_json(app, o);
  app.footer("Examples:\n  unroll explain runs/char-lm --svg plan.svg\n"
             "  unroll explain docs/examples/cells/slstm.toml --backend cpu --threads 1 --json");
}

void add_report(CLI::App& app, Options& o) {
  app.add_option("sources", o.sources,
                 "run folders, --out folders of lever, and files with what compare, lever, explain, bench or generate "
                 "printed")
      ->required();
  app.add_option("--output", o.output, "the HTML file (default: report.html)");
  add_json(app, o);
  app.footer("Example:\n  unroll report runs/a runs/b levers --output report.html");
}

void add_completion(CLI::App& app, Options& o) {
  app.add_option("shell", o.shell, "which shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.footer("Example:\n  source <(unroll completion bash)");
}

struct Row {
  const char* name;
  const char* doc;
  void (*add)(CLI::App&, Options&);
};
constexpr Row k_commands[] = {
    {"doctor", "what this build and machine can do", add_doctor},
    {"new", "write a commented config and sample data", add_new},
    {"data", "what is odd about the data of a config", add_data},
    {"train", "train the model of a config", add_train},
    {"eval", "loss and metrics of a trained model", add_eval},
    {"generate", "text from a trained language model", add_generate},
    {"predict", "a line of text in, its labels or what it becomes out", add_predict},
    {"stream", "a line of numbers in, a line of outputs out, step by step", add_stream},
    {"run", "one forward (and backward) pass on tensors from files", add_run},
    {"inspect", "what is in a model file, run folder, config or graph", add_inspect},
    {"lever", "what each change of a config costs and brings, beside the config itself", add_lever},
    {"explain", "where the time of a model's plans goes, what passes did or left, and why", add_explain_command},
    {"report", "runs and what was measured of them as one HTML file", add_report},
    {"bench", "time one recurrent layer stack", add_bench},
    {"compare", "whether backends agree on a model, and which node is to blame", add_compare},
    {"profile", "where the time of a training update goes", add_profile},
    {"completion", "completion script for a shell", add_completion},
};

void build_app(CLI::App& app, Options& options) {
  app.name("unroll");
  app.set_version_flag("--version", std::string("unroll ") + UNROLL_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n  unroll doctor\n  unroll train docs/examples/char-lm.toml --out runs/char-lm\n"
      "  unroll generate runs/char-lm --prompt \"And \"\n"
      "Exit codes: 0 ok, 1 other, 2 usage, 3 bad input file, 4 numeric, 5 device, 6 storage, 7 memory, 9 results "
      "differ;\n"
      "130 and 143: stopped by a signal after a checkpoint.");
  for (const Row& row : k_commands) {
    CLI::App& command = *app.add_subcommand(row.name, row.doc);
    row.add(command, options);
    command.add_flag("-q,--quiet", options.quiet, "show no progress on stderr");
  }
}

// CLI11 prints the words of IsMember as "TEXT:{a,b}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

}  // namespace

std::vector<CommandInfo> describe_commands() {
  CLI::App app;
  Options options;
  build_app(app, options);
  std::vector<CommandInfo> commands;
  for (const Row& row : k_commands) {
    CommandInfo& command = commands.emplace_back();
    command.name = row.name;
    command.doc = row.doc;
    for (const CLI::Option* option : app.get_subcommand(row.name)->get_options()) {
      if (option->get_positional()) {
        if (command.choices.empty()) command.choices = choices_of(*option);
        continue;
      }
      OptionInfo info;
      for (const auto& name : option->get_lnames()) info.names.push_back("--" + name);
      for (const auto& name : option->get_snames()) info.names.push_back("-" + name);
      info.doc = option->get_description();
      info.takes_value = option->get_items_expected_max() > 0;
      info.choices = choices_of(*option);
      command.options.push_back(std::move(info));
    }
  }
  return commands;
}

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_code) {
  CLI::App app{"unroll trains and runs recurrent networks."};
  Options options;
  build_app(app, options);
  app.failure_message([](const CLI::App* at, const CLI::Error& e) {
    return "unroll: error: " + CLI::FailureMessage::simple(at, e);
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    exit_code = app.exit(e) == 0 ? 0 : 2;
    return std::nullopt;
  }
  options.command = app.get_subcommands().front()->get_name();
  return options;
}

Config load_config(const Options& options, const std::string& path) {
  constexpr std::size_t k_max_config_bytes = std::size_t{1} << 20;
  Config config;
  config.apply_toml(read_text_file(path, k_max_config_bytes), path);
  for (const std::string& setting : options.settings) config.apply_setting(setting);
  if (!options.backend.empty()) config.set("run.backend", options.backend, "--backend");
  if (options.threads) config.set("run.threads", *options.threads, "--threads");
  if (!options.memory_limit.empty()) config.set("run.memory_limit", options.memory_limit, "--memory-limit");
  if (options.seed) config.set("train.seed", *options.seed, "--seed");
  return config;
}

std::string backend_or(const Options& options, const std::string& fallback) {
  return options.backend.empty() ? fallback : options.backend;
}

}  // namespace unroll::cli
