// SPDX-License-Identifier: Apache-2.0
// The parameters and training state of a task on a device, and the compiled programs that change them, one per batch
// shape.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/train/device/device_tensors.h"
#include "core/train/update/control.h"
#include "core/train/update/update_graph.h"
#include "unroll/parallel/communicator.h"
#include "unroll/train/trainer.h"

namespace unroll {

// Names and types of its inputs: batches of one text run in one program.
std::string shapes_of(const Batch& batch);

class DeviceModel {
 public:
  // Parameters start from (seed, name).
  DeviceModel(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options);

  struct UpdateInputs {
    double lr;
    std::int64_t update;  // from 1
    double average_rate = 1;
    bool watch = false;
    std::int64_t leaves = 0;  // batches of all ranks; 0: there is one rank, which has them all
    bool asked = false;       // this rank was asked to stop
  };
  // One update with all of them as one batch. With several ranks, `batches` are those of this one: leaves_of(leaves,
  // rank, ranks), core/support/sum_tree.h.
  void update(std::span<const Batch> batches, const UpdateInputs& inputs);
  void update(const Batch& batch, const UpdateInputs& inputs) { update(std::span(&batch, 1), inputs); }
  // Of several ranks: whether one that had batches in the last update was asked to stop. All of them know.
  bool asked_to_stop() const { return asked_; }
  // Of the last update that had `watch` set; over several batches of the last of them, with the gradient of all.
  const std::optional<Watch>& watched() const { return watched_; }
  // Compiles what update(batch) needs, so that the carried tensors exist.
  void prepare(const Batch& batch);

  // Mean over at most `at_most` batches (0: all) of a split from batch `first` on, at 0 from zero states; with the
  // averages where there are some. The task's counts are computed where they are asked for.
  EvaluateResult evaluate(Split split, std::int64_t at_most, std::int64_t first = 0, bool counts = false);
  EvaluateResult evaluate(std::span<const Batch> batches);
  // The task's outputs by name.
  TensorMap predict(const Batch& batch);

  // What TrainerOptions::stage is called with; compilation and evaluation say so themselves and come back to it.
  void tell(const WorkStage& stage) {
    stage_now_ = stage;
    if (stage_) stage_(stage);
  }

  // Sums since clear_totals(): see update_graph.h.
  std::vector<double> totals() const;
  void clear_totals() { carried_.clear(k_totals); }
  struct BadUpdates {
    std::int64_t skipped;      // in all
    std::int64_t row;          // of the last updates, without a break
    std::int64_t longest_row;
    std::int64_t last;         // 0: none
  };
  BadUpdates bad() const;
  double loss_scale() const { return carried_.has(k_loss_scale) ? carried_.download(k_loss_scale).at(0) : 1; }
  // Replays an update with what is carried now, which is exact while no later update was good: what was not finite
  // first. Empty when all is.
  std::string first_nonfinite(std::span<const Batch> batches, std::int64_t update, std::int64_t leaves = 0) const;
  std::size_t n_programs() const { return updates_.size() + sums_.size() + evaluations_.size() + watching_.size(); }
  // By name, of what is there and compiled now. `waiting` batches lie on the host.
  std::vector<RunEstimate::Part> memory(std::int64_t waiting) const;
  // Programs that take turns share one arena, as large as the largest of them needs.
  bool one_arena() const { return backend_.describe().one_arena; }
  struct ProgramInfo {
    std::string shapes;   // of its batch
    std::size_t bytes;    // held for this program alone, now: a workspace shrinks when its schedule is chosen
    std::size_t arena;    // not part of `bytes` where programs share one arena
    bool settled;         // schedules are chosen
  };
  std::vector<ProgramInfo> update_programs() const;
  std::vector<ProgramInfo> evaluation_programs() const;
  std::size_t machine_memory() const { return machine_memory_; }
  bool on_device() const { return backend_.describe().memory_bytes > 0; }  // in memory that is not the host's
  std::size_t saved_bytes() const;
  const std::vector<MetricLayout>& metrics() const { return metrics_.value(); }  // of updates, once there was one

  TensorMap parameters() const { return downloaded(parameters_); }  // as the last update left them
  TensorMap carried() const { return downloaded(carried_); }
  // The same, valid until the next update: without a copy where the device's memory is the host's.
  TensorMap parameter_views() const { return views(parameters_); }
  TensorMap carried_views() const { return views(carried_); }
  // What updates change, and back to it in every bit. Slots that are zero, as in a run that begins, have no copy.
  struct Snapshot {
    TensorMap parameters, carried;
  };
  Snapshot snapshot() const { return {parameters_.nonzero(), carried_.nonzero()}; }
  void restore(const Snapshot& snapshot) {
    parameters_.put_back(snapshot.parameters);
    carried_.put_back(snapshot.carried);
  }
  Communicator* ranks() const { return ranks_; }  // null: one rank
  // After an error: what is under way uses the buffers.
  void end_exchanges() noexcept {
    try {
      backend_.wait();
    } catch (const std::exception&) {  // the first error counts
    }
  }
  TensorMap averages() const;  // parameters() where the options ask for no average
  // Throw Error(input_file) naming `source` on missing, unknown or misshapen tensors. Averages begin with the
  // parameters.
  void set_parameters(const TensorMap& tensors, const std::string& source);
  void set_carried(const TensorMap& tensors, const std::string& source);  // without the states of other ranks' shards

 private:
  struct Evaluation {
    std::unique_ptr<BoundProgram> program;
    DeviceTensors* states = nullptr;
    TensorMap results;  // of the last run, by output name
  };
  struct Watching {
    std::unique_ptr<BoundProgram> program;
    std::vector<std::string> parameters, loops;
  };
  Watching& program_for_watch(const Batch& batch, Phase phase, std::int64_t leaves);
  void watch(Watching& w, const Batch& batch, const Tensor& control, std::int64_t update);
  struct ProgramBytes;
  ProgramBytes all_programs() const;
  ProgramInfo info_of(std::string shapes, const BoundProgram& program) const;
  void require_shards(const EvaluationGraph& forward) const;
  UpdateShare share_of(std::int64_t leaves) const;
  bool is_whole(std::int64_t leaves) const { return leaves == 1 && !ranks_ && task_->shards() == 1; }
  void add_persistent(const TrainingGraph& graph);
  void add_parts(const TrainingGraph& graph);
  BoundProgram& program_for_update(const Batch& batch, Phase phase, std::int64_t leaves);
  BoundProgram& program_for_sums(const Batch& like, Phase phase, std::int64_t leaves);  // exchange or step
  BoundProgram& program_for_sum(std::size_t i);
  void gather(std::span<const Batch> batches, const UpdateInputs& inputs, std::int64_t leaves);
  // Its gradient becomes accumulated sum `place`.
  void gather_leaf(const Batch& batch, std::size_t place, std::int64_t leaf, const UpdateInputs& inputs, Phase phase,
                   std::int64_t leaves);
  void clear_states(std::int64_t shard);
  UpdateNumbers numbers_of(const UpdateInputs& inputs, std::int64_t leaf) const;
  static void require_metrics(const std::vector<MetricLayout>& wanted, const std::vector<MetricLayout>& got);
  std::int64_t draw_of(std::int64_t update) const { return (update - 1) * accumulate_ + 1; }
  std::unique_ptr<BoundProgram> compiled(const Graph& graph, std::span<const PersistentTensors> sets);
  void refuse_too_large(const std::vector<ParameterSpec>& parameters) const;
  PlanOptions fitting(const Graph& graph) const;
  static void run(BoundProgram& program, const Batch& batch, const Tensor& control);
  Evaluation& program_for_evaluation(const Batch& batch, bool counts);
  Evaluation& program_for_prediction(const Batch& batch);
  Evaluation bound(const EvaluationGraph& graph, const Batch& batch);
  void run(Evaluation& e, const Batch& batch);
  std::vector<double> sum_of_reports(std::span<const float> reports) const;  // of batches, one behind the other
  EvaluateResult result_of(const std::vector<double>& sums) const;
  void require_parameters(std::span<const ParameterSpec> wanted, const Batch& batch) const;
  static TensorMap downloaded(const DeviceTensors& set);
  static TensorMap views(const DeviceTensors& set);
  static void restore(DeviceTensors& set, const TensorMap& tensors, const std::string& source);

  std::shared_ptr<const Task> task_;
  Batch example_;  // stands for the batch of a rank that has none; while updates run another thread makes batches
  Backend& backend_;
  StageReport stage_;
  WorkStage stage_now_;
  std::uint64_t seed_;
  UpdateConfig recipe_;
  std::int64_t accumulate_;
  PlanOptions plan_options_;
  std::size_t machine_memory_;
  std::optional<std::vector<MetricLayout>> metrics_;  // of updates; an evaluation may have others
  std::vector<MetricLayout> evaluation_metrics_;
  bool carries_ = false;  // states from batch to batch
  Communicator* ranks_;                 // null: one rank
  bool asked_ = false;                  // to stop, in the last update
  std::vector<std::int64_t> shards_;    // whose states are carried here
  std::set<std::string> states_;        // names of the first shard's
  DeviceTensors parameters_;
  DeviceTensors carried_;                                             // slots, averages, states, totals
  DeviceTensors accumulated_;                                         // sums over batches of an update
  std::map<std::string, Type> parts_;                                 // of each of these sums
  std::map<std::string, std::unique_ptr<BoundProgram>> updates_;      // by the batch's types
  std::map<std::string, std::unique_ptr<BoundProgram>> sums_;         // sums of leaves, and steps
  std::map<std::string, Watching> watching_;                          // the same
  std::optional<Watch> watched_;
  std::map<std::string, Evaluation> evaluations_;                     // the same
  std::map<std::string, Evaluation> predictions_;                     // the same
  std::map<std::string, std::unique_ptr<DeviceTensors>> eval_states_;  // by the states' types
};

}  // namespace unroll
