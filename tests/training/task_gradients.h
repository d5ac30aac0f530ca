// SPDX-License-Identifier: Apache-2.0
// Loss and gradients of a task's batch from fixed parameters, to compare batches that must not differ.
#pragma once

#include "tests/support/compare.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/passes/run.h"
#include "unroll/train/trainer.h"

namespace unroll::testing {

// "loss", penalties in it, and "d.<parameter>", computed as in training, with the random key (1, 2, 3) where something
// is random and carried states of zero.
inline TensorMap loss_and_gradients(const Task& task, const Batch& batch, Backend& backend) {
  Graph graph;
  Scope scope(graph, /*training=*/true);
  TaskGraph t = task.build(scope, batch);
  for (const Value penalty : scope.penalties()) t.loss = t.loss + penalty;
  TensorMap inputs = initialize(scope.parameters(), 7);
  std::vector<Value> parameters;
  for (const ParameterSpec& p : scope.parameters()) parameters.push_back(graph.find_input(p.name));
  const std::vector<Value> gradients = differentiate(t.loss, parameters);
  graph.output("loss", t.loss);
  for (std::size_t i = 0; i < gradients.size(); ++i) graph.output("d." + scope.parameters()[i].name, gradients[i]);
  for (const auto& [name, tensor] : batch.inputs) inputs.emplace(name, tensor);
  for (const CarriedState& s : t.states) inputs.emplace("state." + s.name, Tensor(s.type));
  if (graph.find_input("key")) inputs.emplace("key", Tensor::from<std::int32_t>({3}, {1, 2, 3}));
  return evaluate(graph, backend, inputs);
}
inline TensorMap loss_and_gradients(const Task& task, const Batch& batch, const std::string& backend = "reference") {
  return loss_and_gradients(task, batch, *make_backend(backend));
}

// A batch of pairs of texts with other numbers wherever nothing is: behind the ends of sources and of targets.
inline Batch with_other_padding(const Batch& batch) {
  Batch other = batch;
  Tensor &source = other.inputs.at("source"), &before = other.inputs.at("before");
  const Tensor &lengths = batch.inputs.at("lengths"), &labels = batch.inputs.at("labels");
  const std::int64_t S = source.shape()[0], T = before.shape()[0], B = lengths.elements();
  for (std::int64_t b = 0; b < B; ++b) {
    for (auto s = static_cast<std::int64_t>(lengths.at(b)); s < S; ++s) source.set(s * B + b, 1);
    for (std::int64_t t = 0; t < T; ++t)
      if (labels.at(t * B + b) < 0) before.set(t * B + b, 1);
  }
  return other;
}

}  // namespace unroll::testing
