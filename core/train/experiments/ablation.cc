// SPDX-License-Identifier: Apache-2.0
#include "unroll/train/ablation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "core/support/elapsed.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double k_probe_seconds = 0.5, k_warm_seconds = 0.05;
constexpr double k_validating = 0.2;  // of a run's time
constexpr const char* k_loss = "loss";

// One variant while its runs are made.
struct VariantRuns {
  AblationSetup setup;
  RunEstimate estimate;
  double start_seconds = 0;  // what a run takes before its first update
  AblationResult result;
};

// Errors that are a property of the variant, and not of how it was asked for.
bool is_finding(const Error& e) { return e.kind() == ErrorKind::memory || e.kind() == ErrorKind::numeric; }

template <class F>
void noting_failure(AblationResult& result, bool is_baseline, const F& run) {
  try {
    run();
  } catch (const Error& e) {
    if (is_baseline || !is_finding(e)) throw;
    result.failure = e.what();
  }
}

std::vector<std::string> metrics_of(const Task& task) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  std::vector<std::string> names;
  for (const MetricValue& m : task.build(scope, task.example(0)).metrics) names.push_back(m.name);
  return names;
}

// The first one that every task has.
AblationMetric common_metric(std::span<const VariantRuns> all, std::span<const AblationMetric> preferred) {
  std::vector<std::vector<std::string>> known;
  for (const VariantRuns& trial : all) known.push_back(metrics_of(*trial.setup.task));
  for (const AblationMetric& metric : preferred)
    if (std::ranges::all_of(known, [&](const auto& names) { return std::ranges::count(names, metric.name) > 0; }))
      return metric;
  return {};
}

// Options that all runs of an ablation share, whatever the config plans.
TrainerOptions for_ablation(TrainerOptions o) {
  o.schedule = {.name = "constant", .warmup = o.schedule.warmup};
  o.epochs = o.stop_at = o.patience = o.keep = 0;
  o.max_updates = INT32_MAX / o.accumulate - 1;
  o.max_minutes = 0;
  o.watch_every = o.checkpoint_every = 0;
  o.resume = false;
  return o;
}

// Compiles, and times a few updates.
void probe(VariantRuns& trial, bool is_baseline) {
  TrainerOptions o = for_ablation(trial.setup.options);
  o.folder.clear();
  o.estimate_seconds = k_probe_seconds;
  bool seen = false;
  o.estimated = [&](const RunEstimate& e) {
    trial.estimate = e;
    seen = true;
  };
  const auto start = Clock::now();
  noting_failure(trial.result, is_baseline, [&] {
    Trainer(trial.setup.task, *trial.setup.backend, o).fit({}, [&] { return seen; });
  });
  trial.start_seconds = seconds_since(start);
  trial.result.bytes = trial.estimate.bytes - trial.estimate.process_bytes;
}

class Runner {
 public:
  Runner(const VariantRuns& trial, const AblationMetric& metric, std::int64_t nth_seed, std::int64_t points,
         double validated_share, double seconds)
      : trial_(trial), metric_(metric), options_(for_ablation(trial.setup.options)), seconds_(seconds) {
    options_.seed += static_cast<std::uint64_t>(nth_seed);
    options_.estimate_seconds = k_warm_seconds;  // compiling is before the first update
    options_.estimated = [](const RunEstimate&) {};
    if (!options_.folder.empty()) options_.folder += "/seed-" + std::to_string(options_.seed);
    const RunEstimate& e = trial.estimate;
    const auto n = static_cast<double>(trial.setup.task->n_batches(Split::validation));
    options_.validation_batches = std::max<std::int64_t>(std::llround(validated_share * n), 1);
    const double training = seconds - trial.start_seconds -
                            static_cast<double>(points) * e.validation_seconds * validated_share;
    const double updates = std::max(training, 0.0) / std::max(e.update_seconds, 1e-9);
    options_.validate_every = std::max<std::int64_t>(static_cast<std::int64_t>(updates) / points, 1);
    options_.log_every = options_.validate_every;
    run_.seed = options_.seed;
  }

  AblationRun run(const std::function<bool()>& stop) {
    const auto start = Clock::now();
    if (trial_.setup.starts) trial_.setup.starts(options_);
    Trainer trainer(trial_.setup.task, *trial_.setup.backend, options_);
    trainer.fit([this](const Progress& p) { look(p); },
                [&] { return (!run_.points.empty() && seconds_since(start) > seconds_) || (stop && stop()); });
    return std::move(run_);
  }

 private:
  // A report, then the validation after the same update.
  void look(const Progress& p) {
    if (!p.validation_loss) {
      if (!(p.updates_per_second > 0)) return;
      seconds_trained_ += static_cast<double>(p.update - reported_) / p.updates_per_second;
      items_ += p.items;
      reported_ = p.update;
      return;
    }
    lowest_ = std::isfinite(*p.validation_loss) ? std::min(lowest_, *p.validation_loss) : lowest_;
    const double metric = metric_.name == k_loss ? lowest_ : p.validation_metrics.at(metric_.name);
    const bool better = !best_ || (metric_.higher_is_better ? metric > *best_ : metric < *best_);
    if (std::isfinite(metric) && better) best_ = metric;
    run_.points.push_back({items_, seconds_trained_, lowest_, best_.value_or(std::nan(""))});
    const Task& task = *trial_.setup.task;
    run_.items_per_second = items_ / seconds_trained_;
    run_.epoch_seconds = seconds_trained_ / static_cast<double>(reported_ * options_.accumulate) *
                         static_cast<double>(task.n_batches(Split::train));
  }

  const VariantRuns& trial_;
  const AblationMetric& metric_;
  TrainerOptions options_;
  double seconds_;
  AblationRun run_;
  std::int64_t reported_ = 0;
  double items_ = 0, seconds_trained_ = 0, lowest_ = HUGE_VAL;
  std::optional<double> best_;
};

void require_finite(const AblationRun::Point& last, const AblationMetric& metric, const std::string& variant) {
  const auto require = [&](const std::string& name, double value) {
    if (!std::isfinite(value))
      throw Error(ErrorKind::numeric, "ablation", "no validation " + name + " of '" + variant + "' is finite");
  };
  require(k_loss, last.loss);
  require(metric.name, last.metric);
}

using Axis = double AblationRun::Point::*;

// Between two points a straight line; before the first one its value.
double value_at(const AblationRun& run, Axis value, Axis axis, double where) {
  const auto& points = run.points;
  const auto after = std::find_if(points.begin(), points.end(), [&](const auto& p) { return p.*axis >= where; });
  if (after == points.end()) return points.back().*value;
  if (after == points.begin()) return (*after).*value;
  const auto before = after - 1;
  const double share = (where - (*before).*axis) / ((*after).*axis - (*before).*axis);
  return (*before).*value + share * ((*after).*value - (*before).*value);
}

Spread spread_of(std::span<const double> values) {
  Spread s{0, HUGE_VAL, -HUGE_VAL};
  for (const double v : values) {
    s.mean += v / static_cast<double>(values.size());
    s.low = std::min(s.low, v);
    s.high = std::max(s.high, v);
  }
  return s;
}

Shift shift_of(std::span<const double> values, std::span<const double> baseline) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(values.size(), baseline.size()); ++i)
    differences.push_back((values[i] - baseline[i]) / (baseline[i] == 0 ? 1 : std::fabs(baseline[i])));
  if (differences.size() < 2) return Shift::within;
  const Spread d = spread_of(differences);
  if (!(std::fabs(d.mean) > d.high - d.low)) return Shift::within;
  return d.mean < 0 ? Shift::lower : Shift::higher;
}

template <class F>
std::vector<double> by_seed(const AblationResult& result, const F& figure) {
  std::vector<double> values;
  for (const AblationRun& run : result.runs) values.push_back(figure(run));
  return values;
}

void compare_with_baseline(AblationTable& table) {
  table.items = table.seconds = HUGE_VAL;
  for (const AblationResult& row : table.rows)
    for (const AblationRun& run : row.runs) {
      if (!row.failure.empty()) continue;
      table.items = std::min(table.items, run.points.back().items);
      table.seconds = std::min(table.seconds, run.points.back().seconds);
    }
  struct Figure {
    Spread AblationResult::*spread;
    Shift AblationResult::*shift;  // null: none is told
    std::function<double(const AblationRun&)> of;
  };
  using Point = AblationRun::Point;
  const auto at_items = [&](Axis value) {
    return [&table, value](const AblationRun& r) { return value_at(r, value, &Point::items, table.items); };
  };
  const auto at_seconds = [&](Axis value) {
    return [&table, value](const AblationRun& r) { return value_at(r, value, &Point::seconds, table.seconds); };
  };
  const Figure figures[] = {
      {&AblationResult::items_per_second, &AblationResult::speed,
       [](const AblationRun& r) { return r.items_per_second; }},
      {&AblationResult::epoch_seconds, nullptr, [](const AblationRun& r) { return r.epoch_seconds; }},
      {&AblationResult::loss_at_items, nullptr, at_items(&Point::loss)},
      {&AblationResult::loss_at_seconds, nullptr, at_seconds(&Point::loss)},
      {&AblationResult::metric_at_items, &AblationResult::at_items, at_items(&Point::metric)},
      {&AblationResult::metric_at_seconds, &AblationResult::at_seconds, at_seconds(&Point::metric)}};
  for (const Figure& figure : figures)
    for (AblationResult& row : table.rows) {
      if (!row.failure.empty() || row.runs.empty()) continue;
      const std::vector<double> values = by_seed(row, figure.of);
      row.*figure.spread = spread_of(values);
      if (figure.shift) row.*figure.shift = shift_of(values, by_seed(table.rows[0], figure.of));
    }
}

void check(std::span<const AblationVariant> variants, const AblationOptions& o) {
  if (variants.empty()) throw Error(ErrorKind::usage, "ablation", "there is no baseline");
  if (o.seeds < 1 || o.seeds > 1000 || o.points < 1 || !(o.minutes > 0))
    throw Error(ErrorKind::usage, "ablation", "seeds must be in [1, 1000], points at least 1 and minutes above 0");
}

}  // namespace

AblationTable run_ablation(std::span<const AblationVariant> variants, const AblationOptions& options,
                       const std::function<void(const std::string&, const AblationRun&)>& report,
                       const std::function<bool()>& stop) {
  check(variants, options);
  const auto start = Clock::now();
  std::vector<VariantRuns> all;
  for (const AblationVariant& variant : variants) {
    VariantRuns& trial = all.emplace_back();
    trial.setup = variant.make();
    trial.result.name = variant.name;
    if (trial.setup.task->n_batches(Split::validation) < 1)
      throw Error(ErrorKind::usage, "ablation", "'" + variant.name + "' has no validation split to compare on",
                  "Reserve a part of the data for validation");
  }
  AblationTable table;
  table.metric = common_metric(all, options.metrics);
  for (VariantRuns& trial : all) probe(trial, &trial == &all[0]);
  const double whole = 60 * options.minutes;
  const double per_run = whole / static_cast<double>(all.size() * options.seeds);
  double validated = 1;
  for (const VariantRuns& p : all)
    if (p.estimate.validation_seconds > 0)
      validated = std::min(validated, k_validating * per_run /
                                          (static_cast<double>(options.points) * p.estimate.validation_seconds));
  auto runs_left = static_cast<double>(all.size()) * static_cast<double>(options.seeds);
  for (std::int64_t seed = 0; seed < options.seeds; ++seed)
    for (VariantRuns& trial : all) {
      const double share = std::max(whole - seconds_since(start), 0.0) / runs_left--;
      if (!trial.result.failure.empty()) continue;
      noting_failure(trial.result, &trial == &all[0], [&] {
        AblationRun run = Runner(trial, table.metric, seed, options.points, validated, share).run(stop);
        if (run.points.empty()) return;
        require_finite(run.points.back(), table.metric, trial.result.name);
        if (report) report(trial.result.name, run);
        trial.result.runs.push_back(std::move(run));
      });
      if (stop && stop()) throw Error(ErrorKind::usage, "ablation", "was stopped before every change had run");
    }
  for (VariantRuns& trial : all) table.rows.push_back(std::move(trial.result));
  compare_with_baseline(table);
  return table;
}

}  // namespace unroll
