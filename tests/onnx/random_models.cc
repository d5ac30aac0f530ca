// SPDX-License-Identifier: Apache-2.0
#include "tests/onnx/random_models.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "unroll/model/network.h"
#include "unroll/passes/backend.h"
#include "unroll/passes/run.h"

namespace unroll::onnx {
namespace {

std::vector<ParameterSpec> parameters_of(const Inference& inference) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  std::map<std::string, Value, std::less<>> values;
  for (const TensorSpec& spec : inference.inputs)
    values.emplace(spec.name, graph.input(spec.name, {spec.dtype, shape_of(spec, {{"T", 2}, {"B", 2}})}));
  inference.network(scope, Inputs(std::move(values)));
  return scope.parameters();
}

void add_zero_states(const RandomModel& model, TensorMap& inputs) {
  const auto sizes = bind_sizes(model.inference, inputs);
  for (const TensorSpec& spec : model.inference.inputs)
    if (!inputs.contains(spec.name)) inputs.emplace(spec.name, Tensor(spec.dtype, shape_of(spec, sizes)));
}

// Final states by their names in the model, or left out.
TensorMap renamed(const RandomModel& model, TensorMap outputs) {
  for (const std::string& state : model.inference.states) {
    auto entry = outputs.extract(state);
    entry.key() += ".next";
    if (model.with_states) outputs.insert(std::move(entry));
  }
  return outputs;
}

}  // namespace

RandomModel random_model(std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(draw() % n); };
  std::vector<std::string> cells{"rnn", "gru", "lstm", "rnn", "gru", "lstm"};
  for (const std::string& name : cell_names()) cells.push_back(name);
  RecurrentModelOptions o;
  o.cell = cells[static_cast<std::size_t>(below(cells.size()))];
  o.hidden = 2 + below(39);
  o.layers = 1 + static_cast<int>(below(3));
  o.bidirectional = below(3) == 0;
  const bool built_in = o.cell == "rnn" || o.cell == "gru" || o.cell == "lstm";
  if (built_in) o.bias = below(4) != 0;
  if (o.cell == "rnn" && below(3) == 0) o.nonlinearity = Nonlinearity::relu;
  if (o.cell == "gru") o.reset_after = below(2) == 0;
  if (o.cell == "lstm") o.peephole = below(3) == 0;
  if (o.cell == "lstm" && !o.peephole && o.hidden > 1 && below(4) == 0) o.projection = 1 + below(o.hidden - 1);
  if (o.layers > 1 && below(5) == 0) o.skip = SkipConnection::highway;
  const bool lengths = below(3) == 0;
  const std::int64_t inputs = 1 + below(24);
  RandomModel m{.text = o.cell + " I=" + std::to_string(inputs) + " H=" + std::to_string(o.hidden) +
                        " L=" + std::to_string(o.layers),
                .inference = stack_inference(o, inputs, lengths), .parameters = {}, .with_states = below(2) == 0};
  const std::pair<bool, const char*> flags[] = {
      {o.bidirectional, " bidirectional"}, {lengths, " lengths"}, {m.with_states, " states"}, {!o.bias, " no bias"},
      {o.peephole, " peephole"}, {o.projection > 0, " projection"}, {o.nonlinearity == Nonlinearity::relu, " relu"},
      {!o.reset_after, " reset before"}, {o.skip == SkipConnection::highway, " highway"}};
  for (const auto& [is_set, word] : flags) m.text += is_set ? word : "";
  m.parameters = initialize(parameters_of(m.inference), seed);
  return m;
}

TensorMap random_inputs(const RandomModel& model, std::int64_t steps, std::int64_t batch, std::uint64_t seed) {
  TensorMap inputs;
  for (const TensorSpec& spec : model.inference.inputs) {
    const Shape shape = shape_of(spec, {{"T", steps}, {"B", batch}});
    const bool is_state = std::ranges::count(model.inference.states, spec.name) > 0;
    if (is_state && !model.with_states) continue;
    if (spec.dtype == DType::i32) {
      Tensor lengths(spec.dtype, shape);
      for (std::int64_t b = 0; b < batch; ++b)
        lengths.set(b, static_cast<double>(1 + (seed + 7 * static_cast<std::uint64_t>(b)) %
                                                   static_cast<std::uint64_t>(steps)));
      inputs.emplace(spec.name, std::move(lengths));
      continue;
    }
    const ParameterSpec x{spec.name, {spec.dtype, shape}, Initializer::uniform(is_state ? 0.5 : 1)};
    inputs.merge(initialize(std::span(&x, 1), seed));
  }
  return inputs;
}

TensorMap expected_outputs(const RandomModel& model, TensorMap inputs) {
  const auto backend = make_backend("reference");
  add_zero_states(model, inputs);
  return renamed(model, Model(*backend, model.inference.network, model.parameters).run(inputs));
}

TensorMap exact_outputs(const RandomModel& model, TensorMap inputs) {
  const auto backend = make_backend("reference");
  add_zero_states(model, inputs);
  Graph graph;
  Scope scope(graph, /*training=*/false, DType::f64);
  std::map<std::string, Value, std::less<>> values;
  for (auto& [name, tensor] : inputs) {
    if (tensor.dtype() == DType::f32) tensor = tensor.cast(DType::f64);
    values.emplace(name, graph.input(name, tensor.type()));
  }
  for (const auto& [name, value] : model.inference.network(scope, Inputs(std::move(values))).outputs)
    graph.output(name, value);
  for (const auto& [name, tensor] : model.parameters) inputs.emplace(name, tensor.cast(DType::f64));
  return renamed(model, evaluate(graph, *backend, inputs));
}

double relative_l2(const Tensor& a, const Tensor& b) {
  double difference = 0, norm = 0;
  for (std::int64_t k = 0; k < b.elements(); ++k) {
    difference += (a.at(k) - b.at(k)) * (a.at(k) - b.at(k));
    norm += b.at(k) * b.at(k);
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

}  // namespace unroll::onnx
