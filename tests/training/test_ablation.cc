// SPDX-License-Identifier: Apache-2.0
// Ablations: a baseline and changes of it, run in turn and compared at equal items and at equal time.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>

#include "tests/support/memory_vfs.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"
#include "unroll/train/ablation.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// Each batch of training takes so long at least.
class SlowTask : public TinyTask {
 public:
  explicit SlowTask(std::chrono::microseconds time) : time_(time) {}
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const auto start = std::chrono::steady_clock::now();
    while (split == Split::train && std::chrono::steady_clock::now() - start < time_) {
    }
    return TinyTask::batch(split, seed, epoch, index);
  }

 private:
  std::chrono::microseconds time_;
};

AblationVariant variant(const std::string& name, std::shared_ptr<const Task> task,
            const std::function<void(TrainerOptions&)>& change = {}) {
  return {name, [=] {
            AblationSetup setup{make_backend("cpu", {.threads = 1}), task, small_training(10)};
            setup.options.optimizer.lr = 0.05;
            setup.options.prefetch = 0;  // no batch is prepared before its update begins
            if (change) change(setup.options);
            return setup;
          }};
}

constexpr std::chrono::microseconds k_usual{1000};

// The loss times a factor, which is no other task: metrics in units of the data say so.
class Scaled : public SlowTask {
 public:
  explicit Scaled(double factor) : SlowTask(k_usual), factor_(factor) {}
  TaskGraph build(Scope& scope, const Batch& like) const override {
    TaskGraph t = SlowTask::build(scope, like);
    const Value one = scalar_like(t.loss, 1);
    t.metrics = {{"distance", t.loss, one}, {"closeness", one / (one + t.loss), one}};
    t.loss = t.loss * factor_;
    return t;
  }

 private:
  double factor_;
};

}  // namespace

TEST_CASE("runs whose updates take longer than a probe keep to the time limit") {
  const std::chrono::microseconds slow{600000};
  const AblationVariant variants[] = {variant("baseline", std::make_shared<SlowTask>(slow))};
  std::int64_t updates = 0;
  const auto start = std::chrono::steady_clock::now();
  run_ablation(variants, {.seeds = 1, .minutes = 0.05, .points = 2}, [&](const std::string&, const AblationRun& run) {
    updates = std::llround(run.points.back().items);
  });
  // The probe, and at most half of the limit too much.
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 10);
  CHECK(updates > 0);
}

TEST_CASE(
    "a variant that only costs time is slower, has the same losses at equal items and does not gain at equal time") {
  const AblationVariant variants[] = {variant("baseline", std::make_shared<SlowTask>(k_usual)),
                          variant("slow", std::make_shared<SlowTask>(4 * k_usual))};
  std::vector<std::string> order;
  const AblationTable table = run_ablation(variants, {.seeds = 2, .minutes = 0.06, .points = 10},
                                       [&](const std::string& name, const AblationRun& run) {
                                         order.push_back(name + std::to_string(run.seed));
                                       });
  CHECK(order == std::vector<std::string>{"baseline11", "slow11", "baseline12", "slow12"});
  REQUIRE(table.rows.size() == 2);
  const AblationResult &base = table.rows[0], &slow = table.rows[1];
  CHECK(base.name == "baseline");
  CHECK(slow.speed == Shift::lower);
  CHECK(base.speed == Shift::within);
  // At least the time of its batches, of which an update has one and an epoch four.
  CHECK(slow.items_per_second.high <= 250);
  CHECK(slow.epoch_seconds.low >= 0.016);
  // Equal but for the straight lines between validations.
  CHECK(slow.loss_at_items.mean == doctest::Approx(base.loss_at_items.mean).epsilon(0.1));
  CHECK(slow.at_seconds != Shift::lower);
  CHECK(base.bytes > 0);
  CHECK(slow.bytes == base.bytes);
  double least_items = HUGE_VAL, least_seconds = HUGE_VAL;
  for (const AblationResult& row : table.rows)
    for (const AblationRun& run : row.runs) {
      for (std::size_t i = 1; i < run.points.size(); ++i) {
        CHECK(run.points[i].items > run.points[i - 1].items);
        CHECK(run.points[i].seconds > run.points[i - 1].seconds);
        CHECK(run.points[i].loss <= run.points[i - 1].loss);
      }
      least_items = std::min(least_items, run.points.back().items);
      least_seconds = std::min(least_seconds, run.points.back().seconds);
    }
  CHECK(table.items == least_items);
  CHECK(table.seconds == least_seconds);
}

TEST_CASE("a variant that keeps a model from learning costs quality, and one that lets it learn pays") {
  const auto task = std::make_shared<SlowTask>(k_usual);
  const auto rate = [](double lr) { return [=](TrainerOptions& o) { o.optimizer.lr = lr; }; };
  const AblationVariant variants[] = {variant("baseline", task, rate(0.002)), variant("lr=1e-9", task, rate(1e-9)),
                          variant("lr=0.05", task, rate(0.05))};
  const AblationTable table = run_ablation(variants, {.seeds = 2, .minutes = 0.06, .points = 4});
  CHECK(table.rows[1].at_items == Shift::higher);
  CHECK(table.rows[1].at_seconds != Shift::lower);  // on a busy machine a run may have few updates by then
  CHECK(table.rows[2].at_items == Shift::lower);
  CHECK(table.rows[2].at_seconds != Shift::higher);
  CHECK(table.rows[2].loss_at_items.high < table.rows[0].loss_at_items.low);
}

TEST_CASE("a change of the loss's scale is verified by the metric, whichever way it is better") {
  const auto better = [](TrainerOptions& o) { o.optimizer.lr = 0.05; };
  const auto slow = [](TrainerOptions& o) { o.optimizer.lr = 0.002; };
  const AblationVariant variants[] = {variant("baseline", std::make_shared<Scaled>(1), slow),
                          variant("scale=100", std::make_shared<Scaled>(100), better)};
  const auto trial = [&](std::vector<AblationMetric> metrics) {
    return run_ablation(variants, {.seeds = 2, .minutes = 0.03, .points = 3, .metrics = std::move(metrics)});
  };
  const AblationTable by_loss = trial({});
  CHECK(by_loss.metric.name == "loss");
  CHECK(by_loss.rows[1].metric_at_items.mean > by_loss.rows[0].metric_at_items.mean);
  const AblationTable lower = trial({{"accuracy", true}, {"distance"}});  // the task has no accuracy
  CHECK(lower.metric.name == "distance");
  CHECK(lower.rows[1].at_items != Shift::higher);  // on a busy machine runs have few updates
  CHECK(lower.rows[1].metric_at_items.mean < lower.rows[0].metric_at_items.mean);
  CHECK(lower.rows[1].loss_at_items.mean > lower.rows[0].loss_at_items.mean);
  const AblationTable higher = trial({{"closeness", true}});
  CHECK(higher.metric.higher_is_better);
  CHECK(higher.rows[1].at_items != Shift::lower);
  CHECK(higher.rows[1].metric_at_items.mean > higher.rows[0].metric_at_items.mean);
  for (const AblationRun& run : higher.rows[1].runs)
    for (std::size_t i = 1; i < run.points.size(); ++i) CHECK(run.points[i].metric >= run.points[i - 1].metric);
}

TEST_CASE("with one seed there is no spread, and nothing is told of a variant") {
  const auto task = std::make_shared<SlowTask>(k_usual);
  const AblationVariant variants[] = {variant("baseline", task),
                          variant("lr=1e-9", task, [](TrainerOptions& o) { o.optimizer.lr = 1e-9; })};
  const AblationTable table = run_ablation(variants, {.seeds = 1, .minutes = 0.02, .points = 3});
  CHECK(table.rows[1].loss_at_items.mean > table.rows[0].loss_at_items.mean);
  CHECK(table.rows[1].at_items == Shift::within);
}

TEST_CASE("a variant whose numbers are not finite or that does not fit is a row that says so; the baseline must run") {
  const auto task = std::make_shared<SlowTask>(k_usual);
  const auto diverges = [](TrainerOptions& o) {
    o.optimizer = {.name = "sgd", .lr = 1e30};
    o.clip.norm = 0;
  };
  const auto too_large = [](TrainerOptions& o) { o.machine_memory = 1; };
  const AblationVariant variants[] = {variant("baseline", task), variant("lr=1e30", task, diverges),
                                      variant("large", task, too_large)};
  const AblationTable table = run_ablation(variants, {.seeds = 2, .minutes = 0.04, .points = 3});
  CHECK(table.rows[0].failure.empty());
  CHECK(table.rows[0].runs.size() == 2);
  CHECK(table.rows[1].failure.find("finite") != std::string::npos);
  CHECK(table.rows[2].failure.find("the run needs") != std::string::npos);
  CHECK(table.items == std::min(table.rows[0].runs[0].points.back().items, table.rows[0].runs[1].points.back().items));
  CHECK_THROWS_AS(run_ablation(std::span(variants).subspan(2), {.minutes = 0.01}), Error);
  CHECK_THROWS_WITH_AS(run_ablation({}, {}), doctest::Contains("no baseline"), Error);
  CHECK_THROWS_WITH_AS(run_ablation(variants, {.seeds = 0}), doctest::Contains("seeds"), Error);
}

TEST_CASE("bad options of a variant stop it before the first run, and each run leaves a folder of its own") {
  const auto task = std::make_shared<SlowTask>(k_usual);
  const AblationVariant bad[] = {variant("baseline", task), variant("keep=-1", task,
                                                                    [](TrainerOptions& o) { o.prefetch = -1; })};
  bool ran = false;
  CHECK_THROWS_WITH_AS(run_ablation(bad, {}, [&](auto&, auto&) { ran = true; }), doctest::Contains("prefetch"), Error);
  CHECK_FALSE(ran);
  MemoryVfs vfs;
  std::vector<std::string> started;
  const AblationVariant one[] = {{"baseline", [&] {
                          AblationSetup setup{make_backend("cpu", {.threads = 1}), task, small_training(10)};
                          setup.options.folder = "out/baseline";
                          setup.options.vfs = &vfs;
                          setup.starts = [&](const TrainerOptions& run) {
                            CHECK(run.schedule.name == "constant");
                            started.push_back(run.folder + " " + std::to_string(run.seed));
                          };
                          return setup;
                        }}};
  run_ablation(one, {.seeds = 2, .minutes = 0.02, .points = 2});
  CHECK(started == std::vector<std::string>{"out/baseline/seed-11 11", "out/baseline/seed-12 12"});
  for (const char* folder : {"out/baseline/seed-11", "out/baseline/seed-12"}) {
    CHECK(vfs.exists(std::string(folder) + "/metrics.jsonl"));
    CHECK(vfs.exists(std::string(folder) + "/best.safetensors"));
  }
}
