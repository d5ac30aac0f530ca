// SPDX-License-Identifier: Apache-2.0
// The jobs of `unroll bench`: a recurrent stack, forward or with gradients, and a matmul.
#include "frontends/cli/bench/bench_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/work.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

// Builds y, and for training the loss mean(y^2) with the gradient of every parameter.
RecurrentJob build_stack(const BenchModel& w, bool train) {
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

double stack_flop(const BenchModel& w) {
  constexpr std::pair<std::string_view, double> k_gates[] = {{"rnn", 1}, {"gru", 3}, {"lstm", 4}};
  for (const auto& [cell, gates] : k_gates) {
    if (w.model.cell != cell || !w.model.front.empty()) continue;
    const double directions = w.model.bidirectional ? 2 : 1, hidden = static_cast<double>(w.model.hidden);
    const double rows = static_cast<double>(w.sizes.steps) * static_cast<double>(w.sizes.batch);
    const double first = static_cast<double>(w.sizes.input) + hidden, other = directions * hidden + hidden;
    return 2 * rows * directions * gates * hidden * (first + static_cast<double>(w.model.layers - 1) * other);
  }
  return matmul_flop(*build_stack(w, /*train=*/false).graph);
}

// Draws B lengths for MIN:MAX:MEAN from the seed: u^p between the limits has the mean for the right p. Then adds or
// removes single steps in turn until the sum is exact.
std::vector<std::int32_t> draw_lengths(const BenchArguments& o, const RecurrentSizes& sizes) {
  std::int64_t low = 0, high = 0, mean = 0;
  char end = 0;
  if (std::sscanf(o.lengths.c_str(), "%ld:%ld:%ld%c", &low, &high, &mean, &end) != 3 || low < 0 || high > sizes.steps ||
      mean < low || high < mean)
    throw Error(ErrorKind::usage, "unroll bench",
                fmt::format("--lengths must be MIN:MAX:MEAN with 0 <= MIN <= MEAN <= MAX <= T = {}; got '{}'",
                            sizes.steps, o.lengths));
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

struct ProductSizes {
  std::int64_t m = 0, k = 0, n = 0;
};

ProductSizes product_sizes(const BenchArguments& o) {
  constexpr std::int64_t k_largest = 1000000;
  ProductSizes p;
  char end = 0;
  if (std::sscanf(o.shape.c_str(), "%ldx%ldx%ld%c", &p.m, &p.k, &p.n, &end) != 3 || std::min({p.m, p.k, p.n}) < 1 ||
      std::max({p.m, p.k, p.n}) > k_largest)
    throw Error(ErrorKind::usage, "unroll bench",
                fmt::format("--shape must be MxKxN with sizes between 1 and {}; got '{}'", k_largest, o.shape));
  return p;
}

// c [M,N] = a [M,K] b [K,N], each operand stored transposed on request.
BenchJob product_job(const BenchArguments& o) {
  const ProductSizes p = product_sizes(o);
  const Precision precision = bench_precision(o);
  const DType dtype = precision == Precision::bf16  ? DType::bf16
                      : precision == Precision::f16 ? DType::f16
                                                    : DType::f32;
  const Type a{DType::f32, o.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k}};
  const Type b{DType::f32, o.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n}};
  BenchJob job{std::make_shared<Graph>(), {{"a", a, Initializer::uniform(1)}}, {}, {}};
  const ParameterSpec second{"b", b, Initializer::uniform(1)};
  const Value left = job.graph->input("a", {dtype, a.shape});
  Value right;
  if (o.constant_b) {
    const auto seed = static_cast<std::uint64_t>(o.seed.value_or(0));
    right = constant(*job.graph, initialize(std::span(&second, 1), seed).at("b").cast(dtype));
  } else {
    job.drawn.push_back(second);
    right = job.graph->input("b", {dtype, b.shape});
  }
  job.graph->output("c", matmul(left, right, {.a = o.transpose_a, .b = o.transpose_b}));
  job.about.add("mode", o.mode).add("m", p.m).add("k", p.k).add("n", p.n);
  job.about.add("transpose_a", o.transpose_a).add("transpose_b", o.transpose_b).add("constant_b", o.constant_b);
  return job;
}

BenchJob stack_job(const BenchArguments& o) {
  const BenchModel w = bench_model(o);
  RecurrentJob stack = build_stack(w, o.mode == "train");
  BenchJob job{stack.graph, std::move(stack.parameters), {}, {}};
  job.drawn.push_back({"x", stack.x.type(), Initializer::uniform(1)});
  if (w.sizes.lengths) job.given.emplace("lengths", Tensor::from(Shape{w.sizes.batch}, draw_lengths(o, w.sizes)));
  job.about.add("cell", w.model.cell).add("mode", o.mode).add("input", w.sizes.input);
  job.about.add("hidden", w.model.hidden).add("layers", w.model.layers);
  job.about.add("batch", w.sizes.batch).add("steps", w.sizes.steps).add("bidirectional", w.model.bidirectional);
  if (w.sizes.lengths) job.about.add("lengths", o.lengths);
  return job;
}

}  // namespace

// Returns the config's model, or one LSTM layer; command-line options override both.
BenchModel bench_model(const BenchArguments& o) {
  BenchModel w{{.cell = "lstm", .hidden = 256}, {.steps = 100, .batch = 32, .input = 128}};
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

Precision bench_precision(const BenchArguments& options) {
  return options.precision.empty() ? Precision::f32 : precision_from_name(options.precision);
}

BenchJob bench_job(const BenchArguments& options) {
  return options.mode == "gemm" ? product_job(options) : stack_job(options);
}

TensorMap bench_inputs(const BenchJob& job, const Graph& graph, const BenchArguments& options) {
  TensorMap values = initialize(job.drawn, static_cast<std::uint64_t>(options.seed.value_or(0)));
  values.insert(job.given.begin(), job.given.end());
  for (const NamedValue& input : graph.inputs()) {
    const Type& type = graph.type(input.value);
    Tensor& value = values.try_emplace(input.name, type).first->second;
    if (value.dtype() != type.dtype) value = value.cast(type.dtype);
  }
  return values;
}

double bench_flop(const BenchArguments& options) {
  if (options.mode == "gemm") {
    const ProductSizes p = product_sizes(options);
    return 2 * static_cast<double>(p.m) * static_cast<double>(p.k) * static_cast<double>(p.n);
  }
  const BenchModel w = bench_model(options);
  double steps = 1;  // relative to all steps
  if (w.sizes.lengths) {
    const std::vector<std::int32_t> lengths = draw_lengths(options, w.sizes);
    steps = std::accumulate(lengths.begin(), lengths.end(), 0.0) /
            (static_cast<double>(w.sizes.steps) * static_cast<double>(w.sizes.batch));
  }
  return stack_flop(w) * steps * (options.mode == "train" ? 3 : 1);
}

}  // namespace unroll::cli
