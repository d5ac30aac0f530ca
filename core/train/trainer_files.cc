// SPDX-License-Identifier: Apache-2.0
#include "core/train/trainer_state.h"
#include "unroll/error.h"

namespace unroll {

void Trainer::State::open_folder() {
  if (opened) return;
  opened = true;
  const std::optional<TensorFile> last = folder.open(options.resume, options.overwrite);
  model.prepare(task->batch(Split::train, options.seed, 0, 0));
  if (last) restore(*last, folder.loaded_path());
  remember();
}

void Trainer::State::remember() {
  if (options.on_bad == OnBad::rollback) good = {model.parameters(), model.carried(), run};
}

void Trainer::State::restore(const TensorFile& file, const std::string& path) {
  const RunState was = get_run_state(file, path);
  if (was.seed != options.seed)
    throw Error(ErrorKind::usage, path,
                "was made with seed " + std::to_string(was.seed) + "; this run has " + std::to_string(options.seed),
                "Give the same seed, or start in another folder");
  if (was.batches_per_epoch != n_batches)
    throw Error(ErrorKind::usage, path,
                "was made with " + std::to_string(was.batches_per_epoch) + " batches an epoch; this run has " +
                    std::to_string(n_batches),
                "Data, batch and steps must be the same to resume");
  if (was.accumulate != options.accumulate)
    throw Error(ErrorKind::usage, path,
                "was made with " + std::to_string(was.accumulate) + " batches an update; this run has " +
                    std::to_string(options.accumulate),
                "Give the same accumulate to resume");
  TensorMap parameters, carried;
  for (const auto& [name, tensor] : file.tensors) (is_run_tensor(name) ? carried : parameters).emplace(name, tensor);
  model.set_parameters(parameters, path);
  model.set_carried(carried, path);
  run = was;
  saved_update = run.update;
  seen_skipped = model.bad().skipped;
  folder.cut_metrics(run.metrics_bytes);
}

TensorFile Trainer::State::model_file(TensorMap parameters) const {
  TensorFile file{std::move(parameters), task->metadata()};
  for (const auto& [name, tensor] : file.tensors)
    if (!tensor.all_finite())
      throw Error(ErrorKind::numeric, "trainer",
                  "parameter '" + name + "' is not finite after update " + std::to_string(run.update) +
                      ": nothing is saved, the last good files stay",
                  "Lower lr, or clip the gradient norm");
  for (const auto& [key, value] : options.metadata) file.metadata.insert_or_assign(key, value);
  return file;
}

void Trainer::State::save() {
  if (!folder.is_open()) return;
  TensorFile file = model_file(model.parameters());
  file.tensors.merge(model.carried());
  run.metrics_bytes = folder.metrics_bytes();
  put_run_state(file, run);
  put_digest(file);
  folder.save(file, run.update);
  saved_update = run.update;
}

void Trainer::State::save_best(double loss) {
  if (options.patience > 0) best = model.averages();
  if (!folder.is_open()) return;
  TensorFile file = model_file(model.averages());
  file.metadata["trainer.update"] = std::to_string(run.update);
  file.metadata["trainer.validation_loss"] = std::to_string(loss);
  put_digest(file);
  folder.set_best(std::move(file));
}

void Trainer::State::leave_some_best() {
  if (run.best_loss || !folder.is_open()) return;
  const EvaluateResult r = model.evaluate(Split::validation, options.validation_batches);
  save_best(r.loss);
}

void Trainer::State::restore_best() {
  if (!best && folder.is_open()) best = load_model(folder.best_path(), folder.vfs()).tensors;
  if (best) model.set_parameters(*best, "best parameters");
}

}  // namespace unroll
