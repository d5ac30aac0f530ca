// SPDX-License-Identifier: Apache-2.0
#include "core/support/tensor_role.h"
#include "core/support/text/exact_text.h"
#include "core/support/text/in_quotes.h"
#include "core/train/loop/trainer_state.h"
#include "unroll/support/error.h"

namespace unroll {

void Trainer::State::start() {
  if (started_once) return;
  started_once = true;
  const std::optional<TensorFile> last = open_folder();
  prepare_programs();
  if (last) resume(*last);
  remember();
}

std::optional<TensorFile> Trainer::State::open_folder() {
  std::optional<TensorFile> last;
  if (is_first()) last = folder.open(options.resume, options.overwrite);
  loaded_path = folder.loaded_path();
  if (ranks) {
    last = from_first(last);
    if (last && !is_first()) loaded_path = "the checkpoint of rank 0";
  }
  if (keeps_files()) {
    run.data_digest = digest_of(task->batch(Split::train, options.seed, 0, 0));
    if (task->n_batches(Split::validation) > 0)
      run.validation_digest = digest_of(task->batch(Split::validation, options.seed, 0, 0));
  }
  return last;
}

void Trainer::State::resume(const TensorFile& last) {
  restore(last, loaded_path);
  saved_update = run.update;
  if (is_first()) folder.cut_metrics(run.metrics_bytes);
}

void Trainer::State::prepare_programs() {
  if (prepared) return;
  model.compile_update(task->example(options.seed));
  prepared = true;
  remember();
}

void Trainer::State::remember() {
  if (options.on_bad != OnBad::rollback) return;
  good = {model.tensors().parameters().downloaded(), model.tensors().carried().downloaded(), run};
}

void Trainer::State::require_same_run(const RunState& was, const std::string& path) const {
  const auto require = [&](const char* name, auto before, auto now, const char* next) {
    if (before == now) return;
    throw Error(ErrorKind::usage, path,
                std::string("cannot change ") + name + " from " + std::to_string(before) + " to " +
                    std::to_string(now) + " in a resumed run",
                next);
  };
  require("the seed", was.seed, options.seed, "Use the same seed, or start in another folder");
  require("the batches per epoch", was.batches_per_epoch, n_batches,
          "Use the same data, batch and steps, or start in another folder");
  require("accumulate", was.accumulate, options.accumulate, "Use the same value, or start in another folder");
}

// Model options are left out: dropout may change, and tensors of other shapes are refused where they are read.
void Trainer::State::require_same_data(const TensorFile& file, const RunState& was, const std::string& path) const {
  const std::string next = "Use the data that the run began with, or start in another folder";
  for (const auto& [key, now] : task->metadata()) {
    const auto before = file.metadata.find(key);
    if (key.starts_with("model.") || before == file.metadata.end() || before->second == now) continue;
    throw Error(ErrorKind::usage, path,
                "cannot change the task's '" + key + "' from " + in_quotes(before->second) + " to " + in_quotes(now) +
                    " in a resumed run",
                next);
  }
  const auto require_batch = [&](const char* set, const std::string& before, const std::string& now) {
    if (before.empty() || now.empty() || before == now) return;
    throw Error(ErrorKind::usage, path,
                std::string("the ") + set + " data has changed: the first batch was " + before + " and is " + now,
                next);
  };
  require_batch("training", was.data_digest, run.data_digest);
  require_batch("validation", was.validation_digest, run.validation_digest);
}

bool Trainer::State::has_updates_left(std::int64_t end) const {
  if (loaded_path.empty() || run.update < end) return true;
  const std::string text =
      "already at update " + std::to_string(run.update) + " of " + std::to_string(end) + ": nothing to do";
  const std::string next = options.epochs > 0 ? "raise train.epochs" : "raise train.max_updates or --max-updates";
  if (run.update > end) throw Error(ErrorKind::usage, loaded_path, text + "; " + next);
  warn(text + "; " + next + " to continue");
  return false;
}

void Trainer::State::restore(const TensorFile& file, const std::string& path) {
  const RunState was = get_run_state(file, path);
  require_same_run(was, path);
  require_same_data(file, was, path);
  TensorMap parameters, carried;
  for (const auto& [name, tensor] : file.tensors)
    (role_of(name) == TensorRole::parameter ? parameters : carried).emplace(name, tensor);
  model.tensors().set_parameters(parameters, path);
  model.tensors().set_carried(carried, path);
  const RunState now = run;
  run = was;
  run.data_digest = now.data_digest;  // older checkpoints have none
  run.validation_digest = now.validation_digest;
  seen_skipped = model.bad().skipped;
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

TensorFile Trainer::State::checkpoint() {
  TensorFile file = model_file(model.tensors().parameters().views());
  file.tensors.merge(ranks ? carried_by_all() : model.tensors().carried().views());
  run.metrics_bytes = folder.metrics_bytes();
  run.lr = lr_of(run.update);
  put_run_state(file, run);
  put_digest(file);
  return file;
}

void Trainer::State::save() {
  if (!keeps_files()) return;
  const TensorFile file = checkpoint();
  if (is_first()) folder.save(file, run.update);
  saved_update = run.update;
}

void Trainer::State::save_best(double loss) {
  if (options.patience > 0) best = model.tensors().averages();
  if (!folder.is_open()) return;
  TensorFile file = model_file(model.tensors().averages());
  file.metadata["trainer.update"] = std::to_string(run.update);
  file.metadata["trainer.validation_loss"] = short_text(loss, 9);
  put_digest(file);
  folder.set_best(std::move(file));
}

void Trainer::State::leave_some_best() {
  if (run.best_loss || !keeps_files()) return;
  const EvaluateResult r = model.evaluator().evaluate(Split::validation, options.validation_batches);
  save_best(r.loss);
}

void Trainer::State::restore_best() {
  if (on_any_rank(!best) && keeps_files()) {
    std::optional<TensorFile> file;
    if (is_first()) file = load_model(folder.best_path(), folder.vfs());
    if (ranks) file = from_first(file);
    best = file->tensors;
  }
  if (best) model.tensors().set_parameters(*best, "best parameters");
}

}  // namespace unroll
