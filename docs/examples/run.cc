// SPDX-License-Identifier: Apache-2.0
// Runs an LSTM window by window with carried state, and checks that the result equals that of a single run.
// Shapes: T steps of all windows, B batch, I input, H hidden. usage: run [WEIGHTS.safetensors with PyTorch's names]
#include <unroll/model/model.h>
#include <unroll/passes/run.h>
#include <unroll/io/safetensors.h>

#include <cmath>
#include <cstdio>

using namespace unroll;

namespace {

constexpr std::int64_t B = 2, I = 8, H = 16, k_window = 5, k_windows = 4;

// Compiles a program for T steps. Inputs: x, h0, c0 and the parameters. Outputs: y, hn and cn.
Program lstm_program(std::int64_t T, Backend& backend, std::vector<ParameterSpec>& parameters) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value x = graph.input("x", {DType::f32, {T, B, I}});
  const Value h0 = graph.input("h0", {DType::f32, {1, B, H}}), c0 = graph.input("c0", {DType::f32, {1, B, H}});
  const CellLayerResult result = recurrent_model(scope, x, {.cell = "lstm", .hidden = H}, {h0, c0});
  graph.output("y", result.y);
  graph.output("hn", result.states[0]);
  graph.output("cn", result.states[1]);
  parameters = scope.parameters();
  return Program(graph, backend);
}

Tensor ramp(Shape shape, double start) {
  Tensor x(DType::f32, shape);
  for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, std::sin(0.1 * (start + static_cast<double>(i))));
  return x;
}

}  // namespace

int main(int argc, char** argv) {
  const auto backend = make_backend("cpu");
  std::vector<ParameterSpec> specs;
  Program window = lstm_program(k_window, *backend, specs), whole = lstm_program(k_window * k_windows, *backend, specs);
  TensorMap inputs = argc > 1 ? load_safetensors(argv[1]).tensors : initialize(specs, /*seed=*/0);
  const Tensor zero(DType::f32, {1, B, H});
  inputs["h0"] = inputs["c0"] = zero;
  inputs["x"] = ramp({k_window * k_windows, B, I}, 0);
  const Tensor wanted = whole.run(inputs).at("hn");

  for (std::int64_t i = 0; i < k_windows; ++i) {
    inputs["x"] = ramp({k_window, B, I}, static_cast<double>(i * k_window * B * I));
    TensorMap outputs = window.run(inputs);
    inputs["h0"] = outputs.at("hn");  // the caller owns the state and may keep, reset or save it
    inputs["c0"] = outputs.at("cn");
  }
  double difference = 0;
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    difference = std::max(difference, std::abs(wanted.at(i) - inputs["h0"].at(i)));
  }
  std::printf("largest difference between %d windows and one run: %g\n", static_cast<int>(k_windows), difference);
  return difference < 1e-6 ? 0 : 1;
}
