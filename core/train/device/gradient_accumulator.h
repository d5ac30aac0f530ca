// SPDX-License-Identifier: Apache-2.0
// Sums the gradients of the micro-batches of an update in the order of a tree (core/support/sum_tree.h). Several ranks
// exchange their sums in the program of each rank's last micro-batch.
#pragma once

#include <cstdint>
#include <span>

#include "core/train/device/programs.h"
#include "core/train/update/control.h"

namespace unroll {

class GradientAccumulator {
 public:
  // shards: of the task's states, by micro-batch.
  GradientAccumulator(std::int64_t shards, UpdatePrograms& programs, ModelTensors& tensors)
      : shards_(shards), programs_(programs), tensors_(tensors) {}

  // `batches` are the micro-batches of this rank: micro_batches_of(share...). `numbers` are those of the update's first
  // micro-batch. The step program then reads the sums. `example` stands for the batch of a rank that has none.
  void accumulate(std::span<const Batch> batches, const UpdateNumbers& numbers, const UpdateShare& share,
                  const Batch& example);

 private:
  // Micro-batch `index` of the update becomes partial sum `place`.
  void add(const Batch& batch, std::int64_t index, std::size_t place, const UpdateNumbers& numbers, Phase phase,
           const UpdateShare& share);

  std::int64_t shards_;
  UpdatePrograms& programs_;
  ModelTensors& tensors_;
};

// Sets the inputs of an update's program and runs it.
void run_update(BoundProgram& program, const Batch& batch, const UpdateNumbers& numbers);

}  // namespace unroll
