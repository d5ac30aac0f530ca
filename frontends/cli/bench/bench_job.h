// SPDX-License-Identifier: Apache-2.0
// Jobs of `unroll bench`: a graph, its inputs and its work. Shapes: T time, B batch, I input, H hidden.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/options/command_options.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/config/run/job.h"
#include "unroll/passes/run.h"
#include "unroll/support/tensor.h"

namespace unroll::cli {

// Unset values come from the config, or without one from a single LSTM layer.
struct BenchArguments : ConfigArguments, StepArguments, OutputArguments {
  std::optional<std::string> cell;
  std::optional<std::int64_t> input_width;
  std::optional<std::int64_t> hidden;
  std::optional<std::int64_t> layers;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> steps;
  bool bidirectional = false;
  std::string lengths;  // MIN:MAX:MEAN
  std::string mode = "train";
  std::string precision;
  std::string shape = "1024x1024x1024";  // gemm: MxKxN
  bool transpose_a = false;
  bool transpose_b = false;
  bool constant_b = false;
  std::int64_t chunk_steps = 0;
  std::string save;  // file for parameters, inputs and results
};

struct BenchJob {
  std::shared_ptr<Graph> graph;
  std::vector<ParameterSpec> drawn;  // inputs that bench_inputs draws from the seed
  TensorMap given;                   // inputs with values; all others are zeros
  Report about;                      // cell and sizes
};

// A recurrent stack as --config and the options describe it.
struct BenchModel {
  RecurrentModelOptions model;
  RecurrentSizes sizes;
};
BenchModel bench_model(const BenchArguments& options);

Precision bench_precision(const BenchArguments& options);  // --precision, default f32

// --mode infer: y. train: the loss mean(y^2) and the gradients of all parameters. gemm: the matmul of --shape.
BenchJob bench_job(const BenchArguments& options);
// Returns a tensor for each input of `graph`, with its dtype.
TensorMap bench_inputs(const BenchJob& job, const Graph& graph, const BenchArguments& options);
// Returns the useful work of a run; a multiply-add counts two. It is 2 T B D G H (I + H) for the first layer of a
// built-in cell, with D H instead of I for the others. Other cells: the matmuls of the graph. Training: three times
// that. With lengths only valid steps count.
double bench_flop(const BenchArguments& options);

}  // namespace unroll::cli
