// SPDX-License-Identifier: Apache-2.0
// Every command-line option as plain data. Only options.cc knows the parser.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/config/config.h"
#include "unroll/lever.h"
#include "unroll/tasks.h"

namespace unroll::cli {

struct Options {
  std::string command;

  // common
  bool json = false;
  bool quiet = false;
  bool no_self_test = false;  // doctor
  std::string backend;  // empty: the config's
  std::optional<std::int64_t> threads;
  std::optional<std::int64_t> seed;
  std::vector<std::string> settings;

  // files
  std::string config;  // config file, or run folder
  std::string path;    // what `inspect` and `new` name
  std::string out;
  std::string weights;
  std::string input;
  std::string output;
  std::string format;  // predict: csv, tsv, jsonl, text
  std::optional<std::int64_t> horizon;  // predict of a forecast task

  std::vector<std::string> sources;  // report: run folders, folders of lever, files
  bool no_examples = false;          // report

  std::string kind;   // new: a word of task_kinds()
  std::string data;   // new: use this data file
  std::string shell;  // completion
  bool reference = false;
  bool grad = false;
  bool resume = false;
  bool explain = false;
  bool find_lr = false;
  bool verify_resume = false;
  std::optional<std::int64_t> check_precision;  // updates
  double tolerance = 0.01;
  std::string what;   // data: "check"
  bool strict = false;
  bool print_graph = false;
  bool print_dot = false;
  std::optional<std::int64_t> max_updates;

  std::int64_t length = 400;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::string prompt = "\n";
  bool echo = false;

  // predict and eval of a translate task
  DecodeOptions decode;

  std::string split = "test";
  std::string checkpoint = "best";

  // bench: what is not given is the config's, or without one that of one LSTM layer
  std::optional<std::string> cell;
  std::optional<std::int64_t> input_width;
  std::optional<std::int64_t> hidden;
  std::optional<std::int64_t> layers;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> steps;
  std::string memory_limit;  // of train and bench
  std::int64_t chunk_steps = 0;  // of bench
  std::string lengths;
  bool bidirectional = false;
  std::string mode = "train";
  double seconds = 3;
  std::string save;                  // bench: parameters, inputs and results go there
  std::string shape = "1024x1024x1024";  // bench --mode gemm: MxKxN
  bool transpose_a = false;
  bool transpose_b = false;
  bool constant_b = false;

  // lever
  std::vector<std::string> levers;  // "batch=64", "batch=64,lr=0.01"
  LeverOptions lever;

  // compare; also --grad, --save
  std::vector<std::string> backends;  // empty: all that are present
  std::int64_t updates = 0;
  std::string precision;              // empty: the config's
  std::vector<std::string> with;      // implementations of others: scripts of bench/peers
  std::string python = "python3";
  std::int64_t runs = 5;

  // profile; also --updates
  std::string trace;                // gets a Chrome trace
  std::int64_t trace_events = 20000;  // of each thread, at most

  // explain; also --out, --memory-limit
  bool full = false;
  std::string svg;  // also eval, predict
  double explain_seconds = 1;

  // stream, bench --mode stream
  std::int64_t lanes = 1;
  std::int64_t chunk = 1;
  std::string weights_dtype = "f32";
  bool bench = false;
};

// What a shell's completion and docs/cli.md need to know of the option tree.
struct OptionInfo {
  std::vector<std::string> names;  // "--json", "-h"
  std::string doc;
  bool takes_value = false;
  std::vector<std::string> choices;
};
struct CommandInfo {
  std::string name;
  std::string doc;
  std::vector<OptionInfo> options;
  std::vector<std::string> choices;  // of the first positional
};
std::vector<CommandInfo> describe_commands();

// The chosen command's options; nothing when the call was answered already (--help, --version: exit_code 0;
// a wrong option: told on stderr, exit_code 2).
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_code);

// The config file with --set, --backend, --threads and --seed on top.
Config load_config(const Options& options, const std::string& path);
// Of a file that is neither a run folder nor a config. Throws Error(input_file) when it is not the text of a graph.
std::string read_graph_text(const std::string& path);
// Fills what has no config file: bench, doctor.
std::string backend_or(const Options& options, const std::string& fallback);

}  // namespace unroll::cli
