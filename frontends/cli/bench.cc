// SPDX-License-Identifier: Apache-2.0
// `unroll bench`: times one recurrent layer stack, inference or a whole gradient step. Data stays on the device;
// a repeat is run + wait. The protocol is in bench/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "frontends/cli/commands.h"
#include "frontends/cli/job.h"
#include "frontends/cli/report.h"
#include "frontends/cli/stream_job.h"
#include "unroll/autodiff.h"
#include "unroll/error.h"
#include "unroll/run.h"

namespace unroll::cli {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Multiply-adds count two. Matmuls of the graph, those of a scan's body once per step.
double matmul_flop(const Graph& graph) {
  double flop = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::matmul) {
      const Shape& a = graph.type(node.inputs[0]).shape;
      const bool transposed = node.attributes.get_or<bool>("transpose_a", false);
      flop += 2 * static_cast<double>(node.outputs[0].shape.elements()) *
              static_cast<double>(a[a.rank() - (transposed ? 2 : 1)]);
    } else if (node.op == Op::scan) {
      flop += static_cast<double>(scan_layout(node).steps) * matmul_flop(*node.body);
    }
  }
  return flop;
}

struct Workload {
  RecurrentModelOptions model;
  RecurrentSizes sizes;
};

// The config's, or one LSTM layer; options given on the command line come before both.
Workload workload_of(const Options& o) {
  Workload w{{.cell = "lstm", .hidden = 256}, {.steps = 100, .batch = 32, .input = 128}};
  if (!o.config.empty()) {
    const Config config = load_config(o, o.config);
    w = {model_options(config), recurrent_sizes(config)};
  } else if (!o.settings.empty()) {
    throw Error(ErrorKind::usage, "bench", "--set changes a key of a config", "Name one with --config");
  }
  w.model.cell = o.cell.value_or(w.model.cell);
  w.model.hidden = o.hidden.value_or(w.model.hidden);
  w.model.layers = static_cast<int>(o.layers.value_or(w.model.layers));
  w.model.bidirectional = w.model.bidirectional || o.bidirectional;
  w.sizes.input = o.input_width.value_or(w.sizes.input);
  w.sizes.batch = o.batch.value_or(w.sizes.batch);
  w.sizes.steps = o.steps.value_or(w.sizes.steps);
  w.sizes.lengths = !o.lengths.empty();
  return w;
}

// What is timed: y, and for training the loss mean(y^2) with the gradient of every parameter.
RecurrentJob build_bench(const Workload& w, bool train) {
  RecurrentJob job = build_recurrent(w.model, w.sizes);
  if (!train) {
    job.graph->output("y", job.y);
    return job;
  }
  const Value loss = mean(square(job.y));
  std::vector<Value> wrt;
  for (const ParameterSpec& parameter : job.parameters) wrt.push_back(job.graph->find_input(parameter.name));
  const std::vector<Value> gradients = differentiate(loss, wrt);
  job.graph->output("loss", loss);
  for (std::size_t i = 0; i < wrt.size(); ++i) job.graph->output("d_" + job.parameters[i].name, gradients[i]);
  return job;
}

// Forward: 2 T B D G H (I + H) per layer for the built-in cells, the matmuls of the graph for others.
double forward_flop(const Workload& w) {
  constexpr std::pair<std::string_view, double> k_gates[] = {{"rnn", 1}, {"gru", 3}, {"lstm", 4}};
  for (const auto& [cell, gates] : k_gates) {
    if (w.model.cell != cell) continue;
    const double directions = w.model.bidirectional ? 2 : 1, hidden = static_cast<double>(w.model.hidden);
    const double rows = static_cast<double>(w.sizes.steps) * static_cast<double>(w.sizes.batch);
    const double first = static_cast<double>(w.sizes.input) + hidden, other = directions * hidden + hidden;
    return 2 * rows * directions * gates * hidden * (first + static_cast<double>(w.model.layers - 1) * other);
  }
  return matmul_flop(*build_bench(w, /*train=*/false).graph);
}

// B lengths of MIN:MAX:MEAN, drawn from the seed: u^p between the ends has the mean for the right p; then single steps
// are added or taken in turn until the sum is exact.
std::vector<std::int32_t> draw_lengths(const Options& o, const RecurrentSizes& sizes) {
  std::int64_t low = 0, high = 0, mean = 0;
  char end = 0;
  if (std::sscanf(o.lengths.c_str(), "%ld:%ld:%ld%c", &low, &high, &mean, &end) != 3 || low < 0 || high > sizes.steps ||
      mean < low || high < mean)
    throw Error(ErrorKind::usage, "unroll bench",
                fmt::format("--lengths must be MIN:MAX:MEAN with 0 <= MIN <= MEAN <= MAX <= T = {}; got '{}'", sizes.steps,
                            o.lengths));
  const std::vector<ParameterSpec> spec{{"u", {DType::f64, {sizes.batch}}, Initializer::uniform(0.5)}};
  const Tensor u = initialize(spec, static_cast<std::uint64_t>(o.seed.value_or(0)) + 2).at("u");
  const double power = mean == low ? 0 : static_cast<double>(high - low) / static_cast<double>(mean - low) - 1;
  std::vector<std::int32_t> lengths;
  std::int64_t missing = mean * sizes.batch;
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    const double part = mean == low ? 0 : std::pow(u.at(b) + 0.5, power);
    lengths.push_back(static_cast<std::int32_t>(low + std::llround(part * static_cast<double>(high - low))));
    missing -= lengths.back();
  }
  for (std::size_t b = 0; missing != 0; b = (b + 1) % lengths.size()) {
    const std::int32_t step = missing > 0 ? 1 : -1;
    if (lengths[b] + step < low || lengths[b] + step > high) continue;
    lengths[b] += step;
    missing -= step;
  }
  return lengths;
}

// Device buffers for a program's inputs and outputs, inputs filled: parameters initialised, x uniform in [-1, 1).
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

Device make_device(const RecurrentJob& job, Backend& backend, const Plan& plan, const Options& options,
                   const RecurrentSizes& sizes) {
  const auto seed = static_cast<std::uint64_t>(options.seed.value_or(0));
  TensorMap values = initialize(job.parameters, seed);
  const std::vector<ParameterSpec> x{{"x", job.x.type(), Initializer::uniform(1)}};
  values.merge(initialize(x, seed + 1));
  if (!options.lengths.empty())
    values.emplace("lengths", Tensor::from(Shape{sizes.batch}, draw_lengths(options, sizes)));
  Device device;
  for (const NamedValue& input : plan.graph->inputs()) {
    const Type& type = plan.graph->type(input.value);
    const auto found = values.find(input.name);
    const Tensor value = found == values.end() ? Tensor(type) : found->second;
    Buffer* buffer = device.add(backend, type.bytes());
    backend.upload(*buffer, 0, value.bytes());
    device.bindings.inputs.push_back(buffer);
  }
  for (const NamedValue& output : plan.graph->outputs()) {
    device.bindings.outputs.push_back(device.add(backend, plan.graph->type(output.value).bytes()));
  }
  return device;
}

std::vector<double> time_runs(Program& program, const Bindings& bindings, double seconds) {
  constexpr std::size_t k_fewest = 3;
  std::vector<double> times;
  program.run(bindings);  // the first run warms caches and is not counted
  program.backend().wait();
  const auto start = Clock::now();
  while (times.size() < k_fewest || milliseconds_since(start) < seconds * 1e3) {
    const auto begin = Clock::now();
    program.run(bindings);
    program.backend().wait();
    times.push_back(milliseconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  return times;
}

// A step is one call with the state carried; --lanes, --chunk and --weights-dtype instead of --batch and --steps.
int bench_stream(const Options& options) {
  const Workload w = workload_of(options);
  const auto backend =
      make_backend(backend_or(options, "cpu"), {.threads = static_cast<int>(options.threads.value_or(1))});
  const StreamModel model = recurrent_stream(w.model, w.sizes.input);
  const RecurrentJob job = build_recurrent(w.model, {.steps = 1, .batch = 1, .input = w.sizes.input});
  const TensorMap parameters = initialize(job.parameters, static_cast<std::uint64_t>(options.seed.value_or(0)));
  Report report;
  report.add("cell", w.model.cell).add("mode", options.mode);
  report.add("hidden", w.model.hidden).add("layers", static_cast<std::int64_t>(w.model.layers));
  const Report timed = time_stream(*backend, model, parameters, options);
  for (const auto& [name, item] : timed.items()) report.add(name, item);
  report.print(options.json);
  return 0;
}

}  // namespace

int run_bench(const Options& options) {
  if (options.mode == "stream") return bench_stream(options);
  const bool train = options.mode == "train";
  const auto backend =
      make_backend(backend_or(options, "cpu"), {.threads = static_cast<int>(options.threads.value_or(0))});
  const auto compile_start = Clock::now();
  const Workload workload = workload_of(options);
  const RecurrentJob job = build_bench(workload, train);
  Program program(*job.graph, *backend);
  const double compile_ms = milliseconds_since(compile_start);
  const Device device = make_device(job, *backend, program.plan(), options, workload.sizes);
  const std::vector<double> times = time_runs(program, device.bindings, options.seconds);
  const double flop = forward_flop(workload) * (train ? 3 : 1);

  Report report;
  const RecurrentModelOptions& model = workload.model;
  report.add("cell", model.cell).add("mode", options.mode).add("input", workload.sizes.input);
  report.add("hidden", model.hidden).add("layers", static_cast<std::int64_t>(model.layers));
  report.add("batch", workload.sizes.batch).add("steps", workload.sizes.steps);
  report.add("bidirectional", model.bidirectional);
  if (!options.lengths.empty()) report.add("lengths", options.lengths);
  report.add("backend", backend->describe().name).add("device", backend->describe().device);
  report.add("threads", static_cast<std::int64_t>(backend->describe().threads));
  report.add("repeats", static_cast<std::int64_t>(times.size()));
  report.add("min_ms", times.front()).add("median_ms", times[times.size() / 2]);
  report.add("gflops", flop / times.front() / 1e6).add("compile_ms", compile_ms);
  report.add("peak_bytes", static_cast<std::int64_t>(program.plan().arena_bytes + device.bytes));
  report.print(options.json);
  return 0;
}

}  // namespace unroll::cli
