// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/gradient_accumulator.h"

#include "core/support/sum_tree.h"

namespace unroll {

void run_update(BoundProgram& program, const Batch& batch, const UpdateNumbers& numbers) {
  for (const auto& [name, tensor] : batch.inputs) program.set(name, tensor);
  program.set(k_control, control_of(numbers));
  program.run();
}

void GradientAccumulator::accumulate(std::span<const Batch> batches, const UpdateNumbers& numbers,
                                     const UpdateShare& share, const Batch& example) {
  if (batches.empty()) {
    programs_.get(Phase::exchange, example, share).run();
    return;
  }
  const MicroBatches own = micro_batches_of(share.micro_batches, share.rank, share.ranks);
  SumStack stack(own);
  std::int64_t index = own.begin;
  for (const Batch& batch : batches) {
    const bool is_last = &batch == &batches.back();
    const Phase phase = is_last && share.ranks > 1 ? Phase::last : Phase::accumulate;
    add(batch, index++, stack.size(), numbers, phase, share);
    if (is_last) return;  // all_reduce adds it
    std::size_t top = stack.size();
    for (int sums = stack.push(); sums > 0; --sums) programs_.sum(--top).run();
  }
}

void GradientAccumulator::add(const Batch& batch, std::int64_t index, std::size_t place, const UpdateNumbers& numbers,
                              Phase phase, const UpdateShare& share) {
  BoundProgram& program = programs_.get(phase, batch, share);
  DeviceTensors& sums = tensors_.accumulated();
  for (const auto& [part, type] : programs_.parts()) {
    sums.add(accumulated_name(place, part), type);
    program.bind(accumulated_name(0, part), sums.buffer(accumulated_name(place, part)));
    for (std::size_t i = 0; phase == Phase::last && i < place; ++i)
      program.bind(accumulated_name(i + 1, part), sums.buffer(accumulated_name(i, part)));
  }
  const std::int64_t shard = index % shards_;
  for (const auto& [state, buffer] : tensors_.states(shard)) program.bind(state, buffer);
  if (batch.starts_stream) tensors_.clear_states(shard);
  UpdateNumbers own = numbers;
  own.draw += index;
  run_update(program, batch, own);
}

}  // namespace unroll
