// SPDX-License-Identifier: Apache-2.0
// The work that `compare` runs on each backend: a pass over one batch, and training updates.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/train/update/update_graph.h"
#include "unroll/train/compare.h"

namespace unroll {

// One pass over a batch as a graph with its inputs. Outputs: "loss", "metric.<name>" (total), the task's further
// outputs, "state.<name>.next", and with gradients "d_<parameter>".
struct Pass {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<ParameterSpec> parameters;
  TensorMap inputs;
};
Pass build_pass(const Task& task, const Batch& batch, const CompareOptions& options);

// In which arithmetic the verifier computes. A sample is f64 with the rounding of f32 played by random noise.
struct Arithmetic {
  bool wide = false;
  std::uint64_t sample = 0;  // from 1; 0: f64 itself
};
// The graph as `verifier` would run it, in f64. The precision's formats stay.
std::shared_ptr<Graph> in_f64(const Graph& graph, const Backend& verifier, const PlanOptions& options, Arithmetic how);
TensorMap widened(const TensorMap& tensors);

// Updates of training on the host's terms: everything that is carried comes back after each one.
class UpdateLoop {
 public:
  UpdateLoop(const Task& task, Backend& backend, const CompareOptions& options, const TensorMap& parameters,
             Arithmetic how = {});

  double step();  // the next update; its loss
  std::int64_t update() const { return update_; }  // the last one made
  // The graph of the next update and all it reads.
  const Graph& graph();
  TensorMap inputs();
  const TensorMap& tensors() const { return tensors_; }

 private:
  struct Compiled {
    TrainingGraph training;
    std::unique_ptr<Program> program;
  };
  Batch batch_of(std::int64_t update) const;
  Compiled& compiled(const Batch& batch);

  const Task& task_;
  Backend& backend_;
  const CompareOptions& options_;
  PlanOptions plan_options_;
  UpdateConfig config_;
  Arithmetic how_;
  std::int64_t update_ = 0;
  TensorMap tensors_;  // parameters and buffers
  std::map<std::string, Compiled> compiled_;  // by the batch's types
};

}  // namespace unroll
