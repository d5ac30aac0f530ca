// SPDX-License-Identifier: Apache-2.0
// A task's model in training on a device: its tensors, its compiled programs, and the updates that change them.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/train/device/evaluator.h"
#include "core/train/device/gradient_accumulator.h"

namespace unroll {

class DeviceModel {
 public:
  // Parameters start from (seed, name).
  DeviceModel(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options);
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  struct UpdateInputs {
    double lr;
    std::int64_t update;  // from 1
    double average_rate = 1;
    bool statistics = false;          // computed for this update
    std::int64_t micro_batches = 0;   // of all ranks; 0: there is one rank, which has them all
    bool asked = false;               // this rank was asked to stop
  };
  // One update with all batches as one. With several ranks, `batches` are the micro_batches_of() this rank
  // (core/support/sum_tree.h).
  void update(std::span<const Batch> batches, const UpdateInputs& inputs);
  void update(const Batch& batch, const UpdateInputs& inputs) { update(std::span(&batch, 1), inputs); }
  // With several ranks: true on every rank if any rank was asked to stop during the last update.
  bool asked_to_stop() const { return asked_; }
  // The statistics of the last update that computed some. Over several batches: activations are those of the last
  // batch, gradients those of all.
  const std::optional<TrainingStatistics>& statistics() const { return statistics_; }
  // Compiles the programs of update(batch), which allocates the carried tensors.
  void compile_update(const Batch& batch);

  Evaluator& evaluator() { return evaluator_; }
  const TrainingPrograms& programs() const { return programs_; }
  const ModelTensors& tensors() const { return tensors_; }
  ModelTensors& tensors() { return tensors_; }
  StageReporter& stages() { return stages_; }

  // Sums since clear_totals(): see update_graph.h.
  std::vector<double> totals() const;
  void clear_totals() { tensors_.carried().clear(k_totals); }
  struct BadUpdates {
    std::int64_t skipped;      // in all
    std::int64_t row;          // of the last updates, without a break
    std::int64_t longest_row;
    std::int64_t last;         // 0: none
  };
  BadUpdates bad() const;
  double loss_scale() const;
  const std::vector<MetricLayout>& metrics() const { return updates_.metrics(); }  // of updates, once there was one
  // Replays an update with the current tensors, which is exact while no later update was good. Names the first value
  // that is not finite; empty if all are.
  std::string first_nonfinite(std::span<const Batch> batches, std::int64_t update,
                              std::int64_t micro_batches = 0) const;
  // Allocated memory by name. `waiting` batches lie on the host.
  std::vector<RunEstimate::Part> memory(std::int64_t waiting) const;

  Communicator* ranks() const { return ranks_; }  // null: one rank
  // Ends what is under way after an error: it uses the buffers.
  void end_exchanges() noexcept {
    try {
      programs_.backend().wait();
    } catch (const std::exception&) {  // the first error counts
    }
  }

 private:
  struct Example {
    Batch batch;
    EvaluationGraph forward;
  };
  DeviceModel(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options,
              const Example& example);
  void require_shards(const EvaluationGraph& forward) const;
  UpdateConfig config_of(const TrainerOptions& options, const Example& example) const;
  UpdateShare share_of(std::int64_t micro_batches) const;
  bool is_whole(std::int64_t micro_batches) const { return micro_batches == 1 && !ranks_ && task_->shards() == 1; }
  void update_whole(const Batch& batch, const UpdateInputs& inputs, const UpdateNumbers& numbers);
  void note_statistics(CompiledProgram& program, const Batch& batch, const UpdateNumbers& numbers);
  std::int64_t draw_of(std::int64_t update) const { return (update - 1) * accumulate_ + 1; }

  std::shared_ptr<const Task> task_;
  std::uint64_t seed_;
  std::int64_t accumulate_;
  Communicator* ranks_;  // null: one rank
  Batch example_;        // stands for the batch of a rank that has none; while updates run another thread makes batches
  StageReporter stages_;
  TrainingPrograms programs_;
  ModelTensors tensors_;
  UpdatePrograms updates_;
  GradientAccumulator accumulator_;
  Evaluator evaluator_;
  bool asked_ = false;  // to stop, in the last update
  std::optional<TrainingStatistics> statistics_;
};

}  // namespace unroll
