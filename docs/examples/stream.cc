// SPDX-License-Identifier: Apache-2.0
// Streaming inference as in an audio loop: one step per call, with carried state. Then it saves the state, forks the
// stream, and uses int8 weights. usage: stream [WEIGHTS.safetensors of a 2-layer GRU with PyTorch's names, I 8, H 64]
#include <unroll/io/safetensors.h>
#include <unroll/model/stream.h>

#include <cmath>
#include <cstdio>

using namespace unroll;

namespace {

constexpr std::int64_t I = 8, H = 64;

// A simulated sensor value at step t.
std::vector<float> sample(int t) {
  std::vector<float> x(I);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.05f * static_cast<float>(t) * static_cast<float>(i + 1));
  return x;
}

// Random weights for this example; a real program loads trained ones.
TensorMap random_parameters(const RecurrentModelOptions& options) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  recurrent_model(scope, graph.input("x", {DType::f32, {1, 1, I}}), options);
  return initialize(scope.parameters(), /*seed=*/0);
}

}  // namespace

int main(int argc, char** argv) {
  const RecurrentModelOptions options{.cell = "gru", .hidden = H, .layers = 2};
  const TensorMap parameters = argc > 1 ? load_safetensors(argv[1]).tensors : random_parameters(options);
  const auto backend = make_backend("cpu", {.threads = 1});
  Stream stream(*backend, recurrent_stream(options, I), parameters);  // all errors are thrown here

  std::vector<float> y(static_cast<std::size_t>(stream.outputs()));
  bool ok = true;
  for (int t = 0; t < 100; ++t) ok = stream.step(sample(t), y) && ok;  // noexcept, no allocation, no lock

  const TensorMap saved = stream.save();  // tensors: keep them, or write them with save_safetensors
  Stream what_if = stream.fork();         // shares the weights, has its own state
  std::vector<float> other(y.size());
  ok = stream.step(sample(100), y) && what_if.step(sample(500), other) && ok;
  stream.restore(saved);
  ok = stream.step(sample(100), other) && ok;
  std::printf("after going back: %s\n", y == other ? "the same output" : "another output");

  Stream small(*backend, recurrent_stream(options, I), parameters, {.weights = WeightFormat::int8});
  stream.reset();
  float most = 0;
  for (int t = 0; t < 100; ++t) {
    ok = stream.step(sample(t), y) && small.step(sample(t), other) && ok;
    for (std::size_t i = 0; i < y.size(); ++i) most = std::max(most, std::abs(y[i] - other[i]));
  }
  std::printf("int8 weights change an output by at most %g\n", static_cast<double>(most));
  return ok && most > 0 && most < 0.05f ? 0 : 1;
}
