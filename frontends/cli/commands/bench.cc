// SPDX-License-Identifier: Apache-2.0
// `unroll bench`: times one recurrent layer stack, inference or a complete gradient step, or one matmul. Data stays on
// the device; a repeat is run + wait. The protocol is in bench/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/support/elapsed.h"
#include "frontends/cli/bench/bench_job.h"
#include "frontends/cli/bench/stream_job.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/config/run/job.h"
#include "unroll/io/safetensors.h"
#include "unroll/passes/plan_hash.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

void add_options(CLI::App& app, BenchArguments& o) {
  const Bounds size{1, 1000000, 32};
  group(app, "Model");
  add_text(app, "--config", o.config, "FILE", "Take [model] and [cells.NAME] from this config.");
  add_text(app, "--cell", o.cell, "NAME", "Cell: rnn, gru, lstm, another known cell, or one of the config.",
           "the config's, else lstm");
  add_integer(app, "--input", o.input_width, "the config's, else 128", "Input size (I).", size);
  add_integer(app, "--hidden", o.hidden, "the config's, else 256", "Hidden size (H).", size);
  add_integer(app, "--layers", o.layers, "the config's, else 1", "Stacked layers.", {1, 64, 2});
  add_flag(app, "--bidirectional", o.bidirectional, "Run both directions.");
  add_set(app, o);
  group(app, "Workload");
  add_choice(app, "--mode", o.mode,
             "infer: forward pass. train: forward and backward pass. stream: step by step. gemm: a matrix product.",
             {"infer", "train", "stream", "gemm"});
  add_integer(app, "--batch", o.batch, "the config's, else 32", "Sequences per batch (B).", size);
  add_text(app, "--precision", o.precision, "NAME",
           "Precision of infer, train and gemm: f32, tf32, bf16 or f16. gemm: a and b are stored in it.", "f32");
  add_integer(app, "--steps", o.steps, "the config's, else 100", "Time steps (T).", size);
  add_text(app, "--lengths", o.lengths, "MIN:MAX:MEAN", "Draw sequence lengths from this range with this mean.",
           "all T");
  add_lanes(app, o);
  add_text(app, "--shape", o.shape, "MxKxN", "gemm: shape of the product of a [M,K] and b [K,N].");
  add_flag(app, "--transpose-a", o.transpose_a, "gemm: a is stored as [K,M].");
  add_flag(app, "--transpose-b", o.transpose_b, "gemm: b is stored as [N,K].");
  add_flag(app, "--constant-b", o.constant_b, "gemm: b is known at compile time, as weights are in a loop.");
  add_seed(app, o);
  group(app, "Measurement");
  add_number(app, "--seconds", o.seconds, "Seconds to repeat the run.", {0, 3600, 3});
  group(app, "Output");
  add_text(app, "--save", o.save, "FILE", "Write parameters, inputs and results to this safetensors file.");
  add_output(app, o);
  add_device(app, o, "cpu", "0; 1 with --mode stream");
  add_memory_limit(app, o);
  add_integer(app, "--chunk-steps", o.chunk_steps,
              "Steps after which the next layer may begin, as run.chunk_steps; 0: off.", {.lowest = 0});
  add_examples(app,
               "  unroll bench --cell lstm --hidden 256 --batch 32 --steps 100 --threads 2\n"
               "  unroll bench --config docs/examples/cells/slstm.toml --hidden 512 --json");
}

using Clock = std::chrono::steady_clock;

// Device buffers of a program's inputs and outputs, with inputs uploaded.
struct Device {
  std::vector<std::unique_ptr<Buffer>> buffers;
  Bindings bindings;
  std::size_t bytes = 0;

  Buffer* add(Backend& backend, std::size_t size) {
    buffers.push_back(backend.allocate(size));
    bytes += size;
    return buffers.back().get();
  }
};

Device make_device(Backend& backend, const Graph& graph, const TensorMap& values) {
  Device device;
  for (const NamedValue& input : graph.inputs()) {
    Buffer* buffer = device.add(backend, graph.type(input.value).bytes());
    backend.upload(*buffer, 0, values.at(input.name).bytes());
    device.bindings.inputs.push_back(buffer);
  }
  for (const NamedValue& output : graph.outputs())
    device.bindings.outputs.push_back(device.add(backend, graph.type(output.value).bytes()));
  return device;
}

// Saves the inputs and the results of the last run by name, so that others can compute the same and compare.
void save_results(Backend& backend, const Graph& graph, const Device& device, TensorMap values,
                  const std::string& path) {
  for (std::size_t k = 0; k < graph.outputs().size(); ++k) {
    const NamedValue& output = graph.outputs()[k];
    Tensor tensor(graph.type(output.value));
    backend.download(*device.bindings.outputs[k], 0, tensor.bytes());
    values.insert_or_assign(output.name, std::move(tensor));
  }
  TensorFile file;
  file.tensors = std::move(values);
  save_safetensors(path, file);
}

// Returns milliseconds, ascending.
std::vector<double> time_runs(Program& program, const Bindings& bindings, double seconds) {
  constexpr std::size_t k_fewest = 3;
  std::vector<double> times;
  program.run(bindings);  // the first run warms caches and is not counted
  program.backend().wait();
  const auto start = Clock::now();
  while (times.size() < k_fewest || seconds_since(start) < seconds) {
    const auto begin = Clock::now();
    program.run(bindings);
    program.backend().wait();
    times.push_back(1e3 * seconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  return times;
}

// Returns the interquartile range relative to the median.
double spread(const std::vector<double>& sorted) {
  const std::size_t n = sorted.size();
  return (sorted[n - 1 - n / 4] - sorted[n / 4]) / sorted[n / 2];
}

// Returns the predicted time of a run.
double predicted_ms(const Executable& executable) {
  double sum = 0;
  for (const ReportLine& line : executable.report())
    if (line.depth == 0) sum += line.predicted_ms;
  return sum;
}

// `threads` is the default.
ExplainedBackend backend_of(const BenchArguments& options, std::int64_t threads) {
  return {options.explain,
          open_backend(backend_or(options, "cpu"), options.threads.value_or(threads), options.explain)};
}

// Times single calls that carry the state; --lanes, --chunk and --weights-dtype replace --batch and --steps.
int bench_stream(const BenchArguments& options) {
  if (!options.precision.empty())
    throw Error(ErrorKind::usage, "bench", "--precision does not apply to --mode stream", "Use --weights-dtype");
  const BenchModel w = bench_model(options);
  const ExplainedBackend backend = backend_of(options, /*threads=*/1);
  Activity busy("timing");
  const StreamModel model = recurrent_stream(w.model, w.sizes.input);
  const RecurrentJob job = build_recurrent(w.model, {.steps = 1, .batch = 1, .input = w.sizes.input});
  const TensorMap parameters = initialize(job.parameters, static_cast<std::uint64_t>(options.seed.value_or(0)));
  Report report;
  report.add("cell", w.model.cell).add("mode", options.mode);
  report.add("hidden", w.model.hidden).add("layers", w.model.layers);
  const Report timed = time_stream(*backend, model, parameters, options, options);
  busy.finish();
  for (const auto& [name, item] : timed.items()) report.add(name, item);
  backend.print(std::move(report), options.json);
  return 0;
}

int execute(const BenchArguments& options) {
  if (options.mode == "stream") return bench_stream(options);
  const ExplainedBackend backend = backend_of(options, /*threads=*/0);
  Activity busy("compiling");
  const auto compile_start = Clock::now();
  const BenchJob job = bench_job(options);
  PlanOptions how;
  how.memory_limit = bytes_of("--memory-limit", options.memory_limit);
  how.chunk_steps = options.chunk_steps;
  how.precision = bench_precision(options);
  Program program(*job.graph, *backend, how);
  const double compile_ms = 1e3 * seconds_since(compile_start);
  const Graph& graph = *program.plan().graph;
  TensorMap values = bench_inputs(job, graph, options);
  const Device device = make_device(*backend, graph, values);
  busy.say("timing");
  const std::vector<double> times = time_runs(program, device.bindings, options.seconds);
  if (!options.save.empty()) save_results(*backend, graph, device, std::move(values), options.save);

  busy.finish();
  Report report = job.about;
  report.add("precision", std::string(precision_name(how.precision)));
  report.add("backend", backend->describe().name).add("device", backend->describe().device);
  report.add("threads", backend->describe().threads);
  report.add("repeats", times.size());
  report.add("min_ms", times.front()).add("median_ms", times[times.size() / 2]).add("spread", spread(times));
  if (options.explain) report.add("predicted_ms", predicted_ms(program.executable()));
  report.add("gflops", bench_flop(options) / times.front() / 1e6).add("compile_ms", compile_ms);
  report.add("peak_bytes", program.peak_bytes());
  report.add("plan_hash", fmt::format("{:016x}", plan_hash(program.plan())));
  backend.print(std::move(report), options.json);
  return 0;
}

}  // namespace

const Command bench_command = command<BenchArguments>(
    k_deploy, "bench", "Measure the speed of a layer stack or a matrix product.", add_options, execute);

}  // namespace unroll::cli
