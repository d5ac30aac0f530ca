// SPDX-License-Identifier: Apache-2.0
// Evaluation and prediction with the tensors of a model: the forward pass without dropout, with the averages if there
// are some.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/train/device/programs.h"
#include "unroll/parallel/communicator.h"

namespace unroll {

class Evaluator {
 public:
  // `example`: the graph of any batch. ranks: null if there is one.
  Evaluator(const Task& task, const EvaluationGraph& example, std::uint64_t seed, TrainingPrograms& programs,
            const ModelTensors& tensors, StageReporter& stages, Communicator* ranks)
      : task_(task), metrics_(example.metrics), carries_(!example.buffers.empty()), seed_(seed), programs_(programs),
        tensors_(tensors), stages_(stages), ranks_(ranks) {}

  // Mean over at most `at_most` batches (0: all) of a split from batch `first` on. Carried states start as zeros at
  // batch 0. `counts`: computes the task's counts, too.
  EvaluateResult evaluate(Split split, std::int64_t at_most, std::int64_t first = 0, bool counts = false);
  EvaluateResult evaluate(std::span<const Batch> batches);
  // The task's outputs by name.
  TensorMap predict(const Batch& batch);

  std::size_t state_bytes() const;

 private:
  TensorMap run(const Batch& batch, ProgramKind kind);
  CompiledProgram compiled(const Batch& batch, ProgramKind kind);
  EvaluateResult result_of(std::span<const float> reports) const;  // of batches, one behind the other

  const Task& task_;
  std::vector<MetricLayout> metrics_;
  bool carries_;  // states from batch to batch
  std::uint64_t seed_;
  TrainingPrograms& programs_;
  const ModelTensors& tensors_;
  StageReporter& stages_;
  Communicator* ranks_;
  std::map<std::string, std::unique_ptr<DeviceTensors>> states_;  // by their names and types
};

}  // namespace unroll
