// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/train/loop/trainer_state.h"
#include "core/train/update/metrics.h"
#include "core/train/update/schedule.h"

namespace unroll {

Progress Trainer::State::progress(std::int64_t update) {
  const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
  if (seconds > 0 && update > since_update) rate = static_cast<double>(update - since_update) / seconds;
  Progress p{};
  p.update = update;
  p.max_updates = options.max_updates;
  p.lr = lr_of(update);
  p.updates_per_second = rate;
  p.skipped_updates = seen_skipped;
  if (seconds > 0) p.data_wait = (waited - since_waited) / seconds;
  return p;
}

void Trainer::State::log(std::int64_t update, const Report& report) {
  const std::vector<double> t = model.totals();
  model.clear_totals();
  Progress p = progress(update);
  p.loss = t[1] > 0 ? t[0] / t[1] : std::nan("");
  p.items = t[1];
  p.gradient_norm = t[3] > 0 ? t[2] / t[3] : std::nan("");
  if (options.precision == Precision::f16) p.loss_scale = model.loss_scale();
  p.metrics = metric_values(model.metrics(), std::span(t).subspan(k_n_fixed_totals));
  folder.log(json_line(TrainLine{update, epoch_of(update), p.loss, p.lr, p.gradient_norm,
                                 seen_skipped, p.loss_scale, p.metrics}));
  last_loss = p.loss;
  last_norm = p.gradient_norm;
  trained_seconds += std::chrono::duration<double>(Clock::now() - since).count();
  since = Clock::now();
  since_update = update;
  since_waited = waited;
  p.statistics = std::exchange(statistics, std::nullopt);
  p.advice = advisor.look(p);
  if (report) report(p);
}

void Trainer::State::recall_advice() {
  advisor = Advisor(run.update == 0 || folder.is_open());
  for (const Progress& p : reports_of(folder.metrics())) advisor.look(p);
}

void Trainer::State::note_statistics() {
  statistics = model.statistics();
  folder.log(json_line(*statistics));
}

void Trainer::State::validate(std::int64_t update, const Report& report) {
  Progress p = progress(update);
  const auto start = Clock::now();
  const EvaluateResult r = model.evaluator().evaluate(Split::validation, options.validation_batches);
  p.best = std::isfinite(r.loss) && (!run.best_loss || r.loss < *run.best_loss);
  ++n_validations;
  run.last_loss = r.loss;
  run.validations_without_better = p.best ? 0 : run.validations_without_better + 1;
  after_validation(options.schedule, p.best, run.plateau);
  if (p.best) {
    run.best_loss = r.loss;
    run.best_metrics = r.metrics;
    save_best(r.loss);
  }
  folder.log(json_line(ValidationLine{update, r.loss, p.best, r.metrics}));
  p.loss = last_loss;
  p.gradient_norm = last_norm;
  p.validation_loss = r.loss;
  p.validation_metrics = r.metrics;
  p.advice = advisor.look(p);
  since += Clock::now() - start;  // updates per second are of updates alone
  if (report) report(p);
}

TrainResult Trainer::State::result(bool interrupted) const {
  TrainResult r;
  r.updates = run.update;
  r.best_validation_loss = run.best_loss.value_or(0);
  r.last_validation_loss = run.last_loss;
  r.validation_metrics = run.best_metrics;
  r.skipped_updates = seen_skipped;
  r.rollbacks = run.rollbacks;
  const double seconds = trained_seconds + std::chrono::duration<double>(Clock::now() - since).count();
  if (seconds > 0) r.data_wait = waited / seconds;
  r.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  const double share = estimated.updates > 0 ? static_cast<double>(run.update - started_update) /
                                                   static_cast<double>(estimated.updates) : 0;
  r.estimated_seconds = static_cast<double>(run.update - started_update) * estimated.update_seconds +
                        share * estimated.compile_seconds +
                        static_cast<double>(n_validations) * estimated.validation_seconds;
  r.interrupted = interrupted;
  r.out_of_time = is_out_of_time();
  r.out_of_patience = out_of_patience();
  return r;
}

}  // namespace unroll
