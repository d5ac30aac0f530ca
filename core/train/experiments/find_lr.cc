// SPDX-License-Identifier: Apache-2.0
// Search for a learning rate: a range test (Smith 2017, "Cyclical Learning Rates for Training Neural Networks",
// section 3.3) for the highest rate, then short runs below it by successive halving (Jamieson & Talwalkar 2016,
// "Non-stochastic Best Arm Identification and Hyperparameter Optimization"). The slope of a range test cannot replace
// the runs: while the rate grows a decade in a few updates, the noise of the batches is larger than what the loss
// falls.
#include <algorithm>
#include <cmath>
#include <span>

#include "core/support/text/exact_text.h"
#include "core/train/device/device_model.h"
#include "core/train/update/schedule.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr double k_smoothing = 0.9;  // share of the mean so far that an update keeps
constexpr double k_diverged = 4;     // times the best smoothed loss
// Rounds of short runs: updates as a multiple of trial_updates, and how many rates are kept.
struct Round {
  double updates;
  std::size_t kept;
};
constexpr Round k_rounds[] = {{0.5, 4}, {2, 3}, {4, 2}};
constexpr double k_close = 0.02;             // of what the loss fell: the best two rates are equally good
constexpr double k_neighbors = 3.5;          // ratio of neighboring rates, at most
constexpr std::int64_t k_looks = 4;          // at the loss of a short run; the lowest counts, as in a run's best model
constexpr std::int64_t k_shortest = 10;      // updates of a short run
constexpr std::int64_t k_most_batches = 32;  // of the validation set

void check(const LrSearchOptions& o) {
  if (!(o.from > 0 && o.to > o.from && std::isfinite(o.to)))
    throw Error(ErrorKind::usage, "find_lr", "from and to must be positive, and from < to");
  if (o.updates < 10 || o.updates > 100000 || o.trial_updates < k_shortest || o.trial_updates > 100000)
    throw Error(ErrorKind::usage, "find_lr",
                "updates and trial_updates must be in [10, 100000]; got " + std::to_string(o.updates) + " and " +
                    std::to_string(o.trial_updates));
}

double loss_since(DeviceModel& model) {
  const std::vector<double> t = model.totals();
  model.clear_totals();
  return t[1] > 0 ? t[0] / t[1] : std::nan("");
}

// The loss scale of f16 starts by skipping updates, which are no sign of a rate that is too high.
TrainerOptions in_whole_range(TrainerOptions o) {
  if (o.precision == Precision::f16) o.precision = Precision::f32;
  return o;
}

// The loss of the initial parameters, and the deviation of a batch's from it.
struct Start {
  double loss, deviation;
};

// Runs of a model that all begin with the same parameters and read the same batches.
class Runs {
 public:
  Runs(const std::shared_ptr<const Task>& task, Backend& backend, const TrainerOptions& options)
      : task_(*task), options_(in_whole_range(options)), n_batches_(task->n_batches(Split::train)),
        model_(task, backend, options_) {
    if (n_batches_ < 1) throw Error(ErrorKind::usage, "find_lr", "the training set has no complete batch");
    per_epoch_ = (n_batches_ + options.accumulate - 1) / options.accumulate;
    if (options_.epochs > 0) options_.max_updates = options_.epochs * per_epoch_;
    model_.compile_update(task_.batch(Split::train, options_.seed, 0, 0));
    start_ = model_.tensors().snapshot();
  }
  std::int64_t planned() const { return options_.max_updates; }
  void begin() { model_.tensors().restore(start_); }

  // Without a validation set: as in the first updates of the range test, whose rates are too low to learn.
  Start start(std::span<const LrPoint> points) {
    begin();
    if (validates()) return {validation_loss(), 0};
    const std::span<const LrPoint> first = points.first((points.size() + 3) / 4);
    double mean = 0, square = 0;
    for (const LrPoint& p : first) mean += p.loss / static_cast<double>(first.size());
    for (const LrPoint& p : first) square += (p.loss - mean) * (p.loss - mean) / static_cast<double>(first.size());
    return {mean, std::sqrt(square)};
  }

  double update(std::int64_t update, double lr) {
    const std::int64_t from = (update - 1) % per_epoch_ * options_.accumulate;
    std::vector<Batch> batches;
    for (std::int64_t i = from; i < std::min(from + options_.accumulate, n_batches_); ++i)
      batches.push_back(task_.batch(Split::train, options_.seed, (update - 1) / per_epoch_, i));
    model_.update(batches, {lr, update});
    return loss_since(model_);
  }

  // The schedule of the options over `updates`, with its parts as shares of the run.
  LrTrial trial(double lr, std::int64_t updates) {
    begin();
    ScheduleOptions s = options_.schedule;
    const double share = static_cast<double>(updates) / static_cast<double>(std::max<std::int64_t>(planned(), 1));
    for (std::int64_t* part : {&s.warmup, &s.cooldown, &s.step_every})
      *part = std::llround(static_cast<double>(*part) * std::min(share, 1.0));
    s.step_every = std::max<std::int64_t>(s.step_every, 1);
    const std::int64_t part = (updates + k_looks - 1) / k_looks;
    double lowest = HUGE_VAL, sum = 0;
    for (std::int64_t u = 1, since = 0; u <= updates; ++u) {
      const double loss = update(u, scheduled_lr(s, lr, u, updates, 0));
      if (!std::isfinite(loss)) return {lr, u, HUGE_VAL};
      sum += loss;
      ++since;
      if (u % part != 0 && u != updates) continue;
      const double now = validates() ? validation_loss() : sum / static_cast<double>(since);
      if (std::isfinite(now)) lowest = std::min(lowest, now);
      sum = 0;
      since = 0;
    }
    return {lr, updates, lowest};
  }

 private:
  bool validates() const { return task_.n_batches(Split::validation) > 0; }
  double validation_loss() { return model_.evaluator().evaluate(Split::validation, k_most_batches).loss; }

  const Task& task_;
  TrainerOptions options_;
  std::int64_t n_batches_, per_epoch_ = 1;
  DeviceModel model_;
  ModelTensors::Snapshot start_;
};

std::vector<LrPoint> range_test(Runs& runs, const LrSearchOptions& search,
                                const std::function<void(const LrPoint&)>& report) {
  std::vector<LrPoint> points;
  double mean = 0, best = HUGE_VAL;
  for (std::int64_t i = 0; i < search.updates; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(search.updates - 1);
    const double lr = search.from * std::pow(search.to / search.from, share);
    const double loss = runs.update(i + 1, lr);
    if (!std::isfinite(loss)) break;
    mean = k_smoothing * mean + (1 - k_smoothing) * loss;
    const double smoothed = mean / (1 - std::pow(k_smoothing, static_cast<double>(i + 1)));
    best = std::min(best, smoothed);
    if (i > 0 && smoothed > k_diverged * best) break;
    points.push_back({lr, loss, smoothed});
    if (report) report(points.back());
  }
  if (points.size() < 2)
    throw Error(ErrorKind::numeric, "find_lr", "the loss is not finite in the first updates",
                "Start from a lower rate, or check the data");
  return points;
}

// 3 and 1 times powers of ten, over four decades up to the highest rate of the range test.
std::vector<double> machine_below(double highest, double lowest) {
  constexpr int k_decades = 4;
  const int top = static_cast<int>(std::ceil(std::log10(highest)));
  std::vector<double> rates;
  for (int power = top; power >= top - k_decades; --power)
    for (const double digit : {3.0, 1.0}) {
      const double rate = digit * std::pow(10.0, power);
      if (rate <= highest * 1.001 && rate >= lowest * 0.999) rates.push_back(rate);
    }
  if (rates.empty()) rates.push_back(highest);
  return rates;
}

// The rate of the first trial, the best one; of two neighbors that are equally good one between them, in two digits.
double best_of(std::span<const LrTrial> sorted, double loss_at_start) {
  const LrTrial& best = sorted[0];
  if (sorted.size() < 2 || sorted[1].loss - best.loss > k_close * (loss_at_start - best.loss)) return best.lr;
  const double other = sorted[1].lr;
  if (std::max(best.lr, other) > k_neighbors * std::min(best.lr, other)) return best.lr;
  const double between = std::sqrt(best.lr * other), digit = std::pow(10.0, std::floor(std::log10(between)) - 1);
  return std::round(between / digit) * digit;
}

// Throws if the loss fell by less than runs with equally good rates differ.
void refuse_noise(const Start& start, const LrTrial& best) {
  constexpr double k_least = 0.01;  // of the loss
  // Without a validation set, the loss of a run is the mean over a part of its updates.
  const auto updates = static_cast<double>(std::max<std::int64_t>(best.updates / k_looks, 1));
  const double noise = std::max(k_least * std::fabs(start.loss), 2 * start.deviation / std::sqrt(updates));
  if (start.loss - best.loss > noise) return;
  throw Error(ErrorKind::numeric, "find_lr",
              "no learning rate found: the loss of the initial parameters is " + short_text(start.loss, 4) +
                  ", and no rate lowers it by more than its noise, " + short_text(noise, 2),
              "Keep train.lr, train longer, take a larger model, or check the data");
}

}  // namespace

LrSearch find_lr(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options,
                 const LrSearchOptions& search, const std::function<void(const LrPoint&)>& report) {
  check(search);
  Runs runs(task, backend, options);
  LrSearch result;
  result.points = range_test(runs, search, report);
  const Start start = runs.start(result.points);
  std::vector<double> rates = machine_below(result.points.back().lr, search.from);
  // The last round is no longer than the run.
  const double unit = std::min(static_cast<double>(search.trial_updates),
                               static_cast<double>(runs.planned()) / k_rounds[std::size(k_rounds) - 1].updates);
  std::vector<LrTrial> round;
  for (const Round& r : k_rounds) {
    round.clear();
    for (const double lr : rates) {
      round.push_back(runs.trial(lr, std::max<std::int64_t>(std::llround(r.updates * unit), k_shortest)));
      result.trials.push_back(round.back());
      if (search.trial) search.trial(round.back());
    }
    std::ranges::stable_sort(round, {}, &LrTrial::loss);
    if (!std::isfinite(round[0].loss))
      throw Error(ErrorKind::numeric, "find_lr", "no rate keeps the loss finite",
                  "Check the data, or clip the gradients");
    round.resize(std::min(round.size(), r.kept));
    rates.clear();
    for (const LrTrial& t : round) rates.push_back(t.lr);
  }
  refuse_noise(start, round[0]);
  result.suggested = best_of(round, start.loss);
  return result;
}

}  // namespace unroll
