// SPDX-License-Identifier: Apache-2.0
// A run in progress: its position, its model on the device, its files. Functions: trainer.cc (updates), own_loop.cc
// (updates of the caller's own loop), trainer_files.cc (files), trainer_reports.cc (reports).
#pragma once

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/support/machine_memory.h"
#include "core/train/advice.h"
#include "core/train/checkpoint.h"
#include "core/train/device_model.h"
#include "core/train/run_folder.h"
#include "unroll/trainer.h"

namespace unroll {

struct Trainer::State {
  using Clock = std::chrono::steady_clock;
  using Report = std::function<void(const Progress&)>;

  State(std::shared_ptr<const Task> t, Backend& backend, TrainerOptions o);
  void warn(const std::string& text) const;

  // --- position

  std::int64_t epoch_of(std::int64_t update) const { return (update - 1) / updates_per_epoch; }
  // The last update of an epoch may have fewer.
  std::vector<Batch> batches_of(std::int64_t update) const;
  double lr_of(std::int64_t update) const;
  double average_rate_of(std::int64_t update) const;
  // After one update at least, so that a run in slices comes to its end.
  bool is_out_of_time() const;
  DeviceModel::UpdateInputs inputs_of(std::int64_t update, bool watches) const {
    return {lr_of(update), update, average_rate_of(update), watches};
  }
  bool out_of_patience() const { return options.patience > 0 && run.validations_without_better >= options.patience; }

  // --- files

  void open_folder();
  // Compiles an update, so that everything that is carried exists.
  void prepare();
  // What a rollback goes back to.
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
  void estimate(std::int64_t end, bool validates, const std::function<bool()>& stop);
  // What was not finite first in an update after which none was good.
  std::string culprit(std::int64_t update, std::span<const Batch> batches);
  // True when the run went back to an earlier point. Throws Error(numeric) where the policy stops it. The batches of a
  // past update come from the task, or are those of `update` itself where the caller made them.
  bool look_for_bad(std::int64_t update, std::span<const Batch> own = {});
  void roll_back(std::int64_t from);

  // --- reports

  Progress progress(std::int64_t update);
  void log(std::int64_t update, const Report& report);
  // What was said of the run so far is not said again: it follows from the reports.
  void recall_advice();
  void note_watch();
  void validate(std::int64_t update, const Report& report);
  TrainResult result(bool interrupted) const;

  // --- data

  std::size_t resident_before = resident_memory();
  std::shared_ptr<const Task> task;
  TrainerOptions options;
  DeviceModel model;
  RunFolder folder;
  RunState run;
  std::int64_t n_batches = 0, updates_per_epoch = 0;
  std::optional<TensorMap> best;  // kept where patience may end the run
  std::int64_t saved_update = -1;
  bool opened = false, prepared = false;
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
  std::optional<Watch> watch;  // since the last report
  double rate = 0;             // updates per second, last known
};

}  // namespace unroll
