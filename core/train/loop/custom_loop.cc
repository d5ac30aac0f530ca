// SPDX-License-Identifier: Apache-2.0
// The trainer's functions for a training loop that the caller writes: single updates, own batches, own checkpoints.
#include <cmath>

#include "core/support/text/exact_text.h"
#include "core/train/files/checkpoint.h"
#include "core/train/loop/trainer_state.h"
#include "core/train/update/metrics.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"

namespace unroll {

UpdateResult Trainer::update(const Batch& batch, std::optional<double> lr) { return update(std::span(&batch, 1), lr); }

UpdateResult Trainer::update(std::span<const Batch> batches, std::optional<double> lr) {
  State& s = state();
  if (batches.empty() || static_cast<std::int64_t>(batches.size()) > s.options.accumulate)
    throw Error(ErrorKind::usage, "Trainer::update",
                "takes 1 to " + std::to_string(s.options.accumulate) + " batches (TrainerOptions::accumulate); got " +
                    std::to_string(batches.size()));
  if (lr && !(*lr >= 0 && std::isfinite(*lr)))
    throw Error(ErrorKind::usage, "Trainer::update", "lr must be 0 or above; got " + exact_text(*lr));
  s.prepare_programs();
  const std::int64_t update = s.run.update + 1;
  DeviceModel::UpdateInputs inputs = s.inputs_of(update, /*statistics=*/false);
  if (lr) inputs.lr = *lr;
  s.model.clear_totals();
  s.model.update(batches, inputs);
  s.run.update = update;
  const std::vector<double> totals = s.model.totals();
  s.model.clear_totals();  // what fit() reports next is of its own updates

  UpdateResult r{.update = update, .lr = inputs.lr};
  r.skipped = totals[3] == 0;
  r.loss = totals[1] > 0 ? totals[0] / totals[1] : std::nan("");
  r.gradient_norm = r.skipped ? std::nan("") : totals[2];
  r.metrics = metric_values(s.model.metrics(), std::span(totals).subspan(k_n_fixed_totals));
  s.look_for_bad(update, batches);
  return r;
}

std::int64_t Trainer::updates() const { return state_->run.update; }

EvaluateResult Trainer::evaluate(const Batch& batch) { return evaluate(std::span(&batch, 1)); }
EvaluateResult Trainer::evaluate(std::span<const Batch> batches) { return state().model.evaluator().evaluate(batches); }
TensorMap Trainer::predict(const Batch& batch) { return state().model.evaluator().predict(batch); }

void Trainer::save(const std::string& path) {
  State& s = state();
  s.prepare_programs();
  save_safetensors(path, s.checkpoint(), s.folder.vfs());
  s.remember();
}

void Trainer::load(const std::string& path) {
  State& s = state();
  s.prepare_programs();
  const TensorFile file = load_safetensors(path, s.folder.vfs());
  check_digest(file, path);
  s.restore(file, path);
  s.remember();
}

}  // namespace unroll
