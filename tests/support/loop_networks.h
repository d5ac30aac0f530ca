// SPDX-License-Identifier: Apache-2.0
// Small recurrent networks whose rows may end, for tests of loops on devices: their graph, inputs and tolerance.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/gradient_outputs.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"

namespace unroll::testing {

struct LoopSizes {
  std::int64_t T, B, I, H;
};

// Made up: a gate before one product and a norm behind another, so that a step exchanges its values three times.
inline const TextCell k_blend_cell{.name = "blend",
                                   .states = {"h", "s"},
                                   .step = "g = sigmoid(affine(x, h))\n"
                                           "n = tanh(layer_norm(affine(x, g * h)))\n"
                                           "s' = 0.5 * s + n\n"
                                           "h' = (1 - g) * h + g * n + 0.1 * s"};

struct LoopNetwork {
  RecurrentModelOptions options;
  LoopSizes sizes;
  bool trains = true;
};
// Outputs y, the last states, and the gradients of a loss of all of them.
inline void build_with_lengths(Graph& graph, const LoopNetwork& network) {
  const LoopSizes& s = network.sizes;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {s.T, s.B, s.I}});
  const Value lengths = graph.input("lengths", {DType::i32, {s.B}});
  RecurrentModelOptions options = network.options;
  options.hidden = s.H;
  options.cells = {k_blend_cell};
  const CellLayerResult result = recurrent_model(scope, x, options, {}, lengths);
  Value loss = mean(square(result.y));
  for (std::size_t i = 0; i < result.states.size(); ++i) {
    graph.output("state" + std::to_string(i), result.states[i]);
    loss = loss + mean(square(result.states[i]));
  }
  if (network.trains) output_gradients(scope, loss);
  graph.output("y", result.y);
}

// L2 of the difference over that of `wanted`.
inline double distance(const Tensor& got, const Tensor& wanted) {
  double error = 0, size = 0;
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    error += std::pow(got.at(i) - wanted.at(i), 2);
    size += std::pow(wanted.at(i), 2);
  }
  return size == 0 ? std::sqrt(error) : std::sqrt(error / size);
}

inline TensorMap small_numbers_for(const Graph& graph, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> number(-0.5f, 0.5f);
  TensorMap inputs;
  for (const NamedValue& input : graph.inputs()) {
    Tensor tensor(graph.type(input.value));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, number(engine));
    inputs.emplace(input.name, std::move(tensor));
  }
  return inputs;
}

// A loop of two steps adds 1 to x [3] in each. The sum of element 0, 1, ... of `runs` runs with x = 1: 3 * runs.
inline float sum_of_two_steps(Backend& backend, int runs) {
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {3}});
  const std::vector<Value> states{x};
  ScanOptions two_steps;
  two_steps.steps = 2;
  const auto add_one = [](const StepValues& at) { return StepResult{{at.states[0] + 1.0}, {}}; };
  graph.output("y", scan(states, {}, {}, add_one, two_steps).states[0]);
  Program program(graph, backend);
  Tensor ones(Type{DType::f32, {3}});
  for (std::int64_t i = 0; i < 3; ++i) ones.set(i, 1);
  float sum = 0;
  for (int run = 0; run < runs; ++run) sum += static_cast<float>(program.run({{"x", ones}}).at("y").at(run));
  return sum;
}

// x is NaN behind the end of its row, where nothing may be read.
inline void set_lengths(TensorMap& inputs, const std::vector<std::int64_t>& lengths) {
  Tensor& x = inputs.at("x");
  const std::int64_t T = x.shape()[0], B = x.shape()[1], I = x.shape()[2];
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b) % lengths.size()];
    inputs.at("lengths").set(b, static_cast<double>(length));
    for (std::int64_t t = std::max<std::int64_t>(length, 0); t < T; ++t)
      for (std::int64_t i = 0; i < I; ++i)
        x.set((t * B + b) * I + i, std::numeric_limits<double>::quiet_NaN());
  }
}
// 0, between, and T.
inline std::vector<std::int64_t> mixed_lengths(const LoopSizes& s) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < s.B; ++b) lengths.push_back((b * 5 + 2) % (s.T + 1));
  return lengths;
}

// Rounding errors of the longest sum, in each step, relative to the largest value: 2 u for each term.
inline double allowed_error(const LoopSizes& s, double largest) {
  const double terms = static_cast<double>(std::max(s.T * s.B, s.I + s.H) + 8);
  return 0x1p-23 * terms * static_cast<double>(s.T) * largest;
}
// The largest difference of two results as a part of the allowed one; NaN differs.
inline double error_of(const LoopSizes& s, const Tensor& got, const Tensor& wanted) {
  double largest = 0, error = 0;
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    largest = std::max(largest, std::abs(wanted.at(i)));
    const double distance = std::abs(got.at(i) - wanted.at(i));
    error = std::isnan(distance) ? 1e30 : std::max(error, distance);
  }
  return error == 0 ? 0 : error / allowed_error(s, largest);
}

// L2 of the difference over that of `wanted`.
inline double relative_distance(const Tensor& got, const Tensor& wanted) {
  double error = 0, size = 0;
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    error += std::pow(got.at(i) - wanted.at(i), 2);
    size += std::pow(wanted.at(i), 2);
  }
  return size == 0 ? std::sqrt(error) : std::sqrt(error / size);
}

}  // namespace unroll::testing
