// SPDX-License-Identifier: Apache-2.0
// A run in progress: its position, its model on the device, its files. Functions: trainer.cc (updates), custom_loop.cc
// (updates of the caller's own loop), trainer_files.cc (files), trainer_reports.cc (reports).
#pragma once

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/support/machine_memory.h"
#include "core/train/advice/advice.h"
#include "core/train/device/device_model.h"
#include "core/train/files/checkpoint.h"
#include "core/train/files/run_folder.h"
#include "unroll/train/trainer.h"

namespace unroll {

struct Trainer::State {
  using Clock = std::chrono::steady_clock;
  using Report = std::function<void(const Progress&)>;

  State(std::shared_ptr<const Task> t, BackendHandle b, TrainerOptions o);
  void warn(const std::string& text) const;

  // --- position

  std::int64_t epoch_of(std::int64_t update) const { return (update - 1) / updates_per_epoch; }
  // The last update of an epoch may have fewer.
  std::vector<Batch> batches_of(std::int64_t update) const;  // of this rank
  std::int64_t micro_batches_in(std::int64_t update) const;  // batches of all ranks
  double lr_of(std::int64_t update) const;
  double average_rate_of(std::int64_t update) const;
  // After one update at least, so that a run in slices comes to its end.
  bool is_out_of_time() const;
  DeviceModel::UpdateInputs inputs_of(std::int64_t update, bool with_statistics) const {
    return {lr_of(update), update, average_rate_of(update), with_statistics, ranks ? micro_batches_in(update) : 0};
  }
  bool validates() const { return options.validate_every > 0 && task->n_batches(Split::validation) > 0; }
  bool out_of_patience() const { return options.patience > 0 && run.validations_without_better >= options.patience; }

  // --- ranks (trainer_ranks.cc): all call these at the same points of a run

  TrainResult fit(const Report& report, const std::function<bool()>& stop);
  // Makes the updates up to `end`. Returns true if it stopped before max_updates, other than by patience.
  bool run_updates(std::int64_t end, const Report& report, const std::function<bool()>& stop);
  // Reports, validates and saves as due. Goes back to an earlier point instead after too many bad updates.
  void after_update(const Report& report);
  bool is_first() const { return !ranks || ranks->rank() == 0; }  // which alone has files, and speaks
  bool on_any_rank(bool mine) const;
  bool from_rank_0(bool mine) const;  // what it says
  // Throws Error(usage) where ranks differ in data, config or version, and names the first that differs.
  void require_equal_ranks() const;
  std::string facts() const;  // that have to be equal, one line each
  // An error of one rank ends the others, too.
  TrainResult failing_together(const std::function<TrainResult()>& work);
  static std::string first_text(Communicator& ranks, const std::string& mine);  // of the first rank that has one
  // The file of rank 0, on every rank.
  std::optional<TensorFile> from_first(const std::optional<TensorFile>& file) const;
  // The states of all ranks' shards, on rank 0.
  TensorMap carried_by_all() const;

  // --- files

  bool keeps_files() const { return !options.folder.empty(); }  // rank 0 does
  // Once: opens the folder, prepares the programs, and resumes from the folder's last checkpoint.
  void start();
  // Returns the last checkpoint if the run resumes.
  std::optional<TensorFile> open_folder();
  // Differentiates and compiles an update, which allocates everything that is carried.
  void prepare_programs();
  void resume(const TensorFile& last);
  // Keeps the point to which a rollback returns.
  void remember();
  void restore(const TensorFile& file, const std::string& path);
  // Throw Error(usage) where this run cannot follow the one that wrote the checkpoint.
  void require_same_run(const RunState& was, const std::string& path) const;
  void require_same_data(const TensorFile& file, const RunState& was, const std::string& path) const;
  // False when a resumed run is at its end. Throws Error(usage) when it is beyond.
  bool has_updates_left(std::int64_t end) const;
  // Parameters with the metadata that makes them usable alone. A model that is not finite is never written.
  TensorFile model_file(TensorMap parameters) const;
  TensorFile checkpoint();
  void save();
  void save_best(double loss);
  // A run that ends before its first validation leaves a best.safetensors too; its first validation will replace it.
  void leave_some_best();
  // After a run that ended by patience. A resumed one finds them in its folder.
  void restore_best();

  // --- what the updates will take, and did

  // Before the first update, of those up to `end`.
  void estimate(std::int64_t end, const std::function<bool()>& stop);
  // Names the first value that was not finite in an update after which none was good.
  std::string first_nonfinite(std::int64_t update, std::span<const Batch> batches);
  // Advice for such a text, `found`.
  std::string remedy_of(const std::string& found) const;
  // Warn of options that the length of the run leaves without effect, and of a resumed run whose learning rate jumps.
  void warn_of_schedule() const;
  void warn_of_new_rate() const;
  // True when the run went back to an earlier point. Throws Error(numeric) where the policy stops it. The batches of a
  // past update come from the task, or are those of `update` itself where the caller made them.
  bool look_for_bad(std::int64_t update, std::span<const Batch> own = {});
  void roll_back(std::int64_t from);

  // --- reports

  Progress progress(std::int64_t update);
  void log(std::int64_t update, const Report& report);
  // Replays the reports of the run so far, so that no advice is repeated.
  void recall_advice();
  void note_statistics();
  void validate(std::int64_t update, const Report& report);
  TrainResult result(bool interrupted) const;

  // --- data

  std::size_t resident_before = resident_memory();
  BackendHandle backend;
  std::shared_ptr<const Task> task;
  mutable std::mutex making_batches;  // of the training set, by `task`
  TrainerOptions options;
  DeviceModel model;
  Communicator* ranks;  // null: one rank
  RunFolder folder;
  std::string loaded_path;  // of the checkpoint of rank 0; empty: none
  RunState run;
  std::int64_t n_batches = 0, updates_per_epoch = 0;
  std::optional<TensorMap> best;  // kept where patience may end the run
  std::int64_t saved_update = -1;
  bool started_once = false, prepared = false;
  std::int64_t seen_skipped = 0;
  int replays = 0;
  struct Point {
    TensorMap parameters, carried;
    RunState run;
  };
  Point good;  // with OnBad::rollback: the last checkpoint, in memory
  double last_loss = std::nan(""), last_norm = std::nan("");
  Clock::time_point since;
  Clock::time_point started;
  std::int64_t since_update = 0, started_update = 0;
  double waited = 0, since_waited = 0;  // seconds for data, in all and at the last report
  double trained_seconds = 0;           // up to the last report, validations apart
  RunEstimate estimated;
  std::int64_t n_validations = 0;
  Advisor advisor{true};
  std::optional<TrainingStatistics> statistics;  // since the last report
  double rate = 0;             // updates per second, last known
};

}  // namespace unroll
