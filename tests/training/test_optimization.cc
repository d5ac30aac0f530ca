// SPDX-License-Identifier: Apache-2.0
// How parameters move: schedules, groups, clipping, accumulation, averages. Numbers are worked out by hand or by the
// plain way that a feature replaces.
#include <doctest/doctest.h>

#include <cmath>

#include "core/train/device/device_model.h"
#include "core/train/update/schedule.h"
#include "tests/support/each_backend.h"
#include "tests/support/memory_vfs.h"
#include "tests/training/small_tasks.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// loss = sum of matrix * x + sum of vector * 3: the gradients are x [2,2] and 3, whatever the parameters are.
class Constant : public Task {
 public:
  std::vector<float> x{3, 4, 0, 0.5F};
  double start = 1;  // of the matrix
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value in = scope.graph().input("x", like.inputs.at("x").type());
    TaskGraph t;
    t.loss = sum(scope.parameter("layer.matrix", {2, 2}, Initializer::constant(start)) * in) +
             sum(scope.parameter("layer.vector", {2}, Initializer::constant(1))) * 3;
    return t;
  }
  std::int64_t n_batches(Split) const override { return 100; }
  Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t) const override {
    Batch b;
    b.inputs.emplace("x", Tensor::from<float>({2, 2}, x));
    return b;
  }
};

TrainerOptions plain(double lr, std::int64_t updates) {
  TrainerOptions o;
  o.optimizer = {.name = "sgd", .lr = lr};
  o.clip = {.norm = 0};
  o.max_updates = updates;
  o.validate_every = 0;
  o.warn = [](const std::string&) {};
  return o;
}

TensorMap trained(const std::shared_ptr<const Task>& task, const TrainerOptions& options) {
  const auto backend = make_backend("reference");
  Trainer trainer(task, *backend, options);
  trainer.fit();
  return trainer.parameters();
}

void check_values(const Tensor& got, std::vector<double> expected, double epsilon = 1e-6) {
  REQUIRE(got.elements() == static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(got.at(static_cast<std::int64_t>(i)) == doctest::Approx(expected[i]).epsilon(epsilon));
}

// The worst relative L2 distance of a parameter.
double distance(const TensorMap& a, const TensorMap& b) {
  double worst = 0;
  for (const auto& [name, tensor] : a) {
    const Tensor& other = b.at(name);
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      difference += std::pow(tensor.at(i) - other.at(i), 2);
      norm += std::pow(other.at(i), 2);
    }
    worst = std::max(worst, std::sqrt(difference / std::max(norm, 1e-30)));
  }
  return worst;
}

}  // namespace

TEST_CASE("the learning rate warms up, then follows its shape, then cools down") {
  const ScheduleOptions cosine{.name = "cosine", .warmup = 4, .final_fraction = 0.1};
  CHECK(scheduled_lr(cosine, 1, 1, 24) == 0.25);
  CHECK(scheduled_lr(cosine, 1, 4, 24) == 1);
  CHECK(scheduled_lr(cosine, 1, 5, 24) == 1);
  CHECK(scheduled_lr(cosine, 1, 15, 24) == doctest::Approx(0.55));
  CHECK(scheduled_lr(cosine, 1, 25, 24) == doctest::Approx(0.1));
  CHECK(scheduled_lr({}, 0.5, 7, 10) == 0.5);
  const ScheduleOptions linear{.name = "linear", .final_fraction = 0.5};
  CHECK(scheduled_lr(linear, 2, 1, 10) == 2);
  CHECK(scheduled_lr(linear, 2, 6, 10) == 1.5);
  const ScheduleOptions step{.name = "step", .warmup = 2, .factor = 0.1, .step_every = 3};
  CHECK(scheduled_lr(step, 1, 5, 100) == 1);
  CHECK(scheduled_lr(step, 1, 6, 100) == doctest::Approx(0.1));
  CHECK(scheduled_lr(step, 1, 9, 100) == doctest::Approx(0.01));
  const ScheduleOptions cooled{.cooldown = 4};
  CHECK(scheduled_lr(cooled, 1, 6, 10) == 1);
  CHECK(scheduled_lr(cooled, 1, 7, 10) == doctest::Approx(0.8));
  CHECK(scheduled_lr(cooled, 1, 10, 10) == doctest::Approx(0.2));
  const ScheduleOptions both{.warmup = 8, .cooldown = 4};  // in the updates of both, both count
  CHECK(scheduled_lr(both, 1, 6, 10) == 0.75);
  CHECK(scheduled_lr(both, 1, 8, 10) == doctest::Approx(0.6));
  CHECK(scheduled_lr(both, 1, 9, 10) == doctest::Approx(0.4));
  CHECK(scheduled_lr({.warmup = 4}, 1, 2, 2) == 0.5);
}

TEST_CASE("one-cycle gives the rates of OneCycleLR in every update, in short runs too") {
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=n, final_div_factor=4), PyTorch 2.15.
  const std::vector<std::vector<double>> runs{
      {0.01},
      {0.813627452, 0.01},
      {0.994471259, 0.468008604, 0.01},
      {0.04, 0.813627452, 0.290227549, 0.01},
      {0.04, 0.980556627, 0.919853612, 0.675955702, 0.364158845, 0.108300257, 0.01},
      {0.04, 0.52, 1, 0.95097959, 0.813627452, 0.615147862, 0.394852138, 0.196372548, 0.0590204104, 0.01}};
  for (const std::int64_t warmup : {0, 5})
    for (const std::vector<double>& rates : runs) {
      const ScheduleOptions cycle{.name = "one-cycle", .warmup = warmup, .final_fraction = 0.01};
      const auto n = static_cast<std::int64_t>(rates.size());
      CAPTURE(n);
      for (std::int64_t update = 0; update < n; ++update)
        CHECK(scheduled_lr(cycle, 1, warmup + update + 1, warmup + n) ==
              doctest::Approx(rates[static_cast<std::size_t>(update)]).epsilon(1e-8));  // nine digits
      CHECK(scheduled_lr(cycle, 1, warmup + n + 1, warmup + n) == doctest::Approx(0.01));
    }
}

TEST_CASE("no schedule trains a run of one update with the rate 0") {
  for (const char* name : {"constant", "linear", "cosine", "step", "plateau", "one-cycle"})
    for (const std::int64_t warmup : {0, 3})
      for (const std::int64_t cooldown : {0, 1}) {
        CAPTURE(name);
        const ScheduleOptions s{.name = name, .warmup = warmup, .cooldown = cooldown};
        CHECK(scheduled_lr(s, 1, warmup + 1, warmup + 1) > 0);
      }
}

TEST_CASE("options that the length of a run leaves without effect are named, others are not") {
  const auto said = [](const ScheduleOptions& schedule, const AverageOptions& average = {}) {
    TrainerOptions o = plain(0.1, 10);
    o.schedule = schedule;
    o.average = average;
    std::string text;
    o.warn = [&](const std::string& line) { text += line + "\n"; };
    trained(std::make_shared<Constant>(), o);
    return text;
  };
  CHECK(said({.warmup = 500}) ==
        "train.warmup = 500 does not fit a run of 10 updates: the learning rate rises to 0.002 in its last update\n");
  CHECK(said({.cooldown = 19}).find("train.cooldown = 19 does not fit a run of 10 updates") == 0);
  CHECK(said({.name = "step", .step_every = 10}).find("train.step_every = 10") == 0);
  CHECK(said({}, {.kind = Average::ema, .start = 10}).find("train.average_start = 10") == 0);
  CHECK(said({.name = "cosine", .warmup = 9, .cooldown = 1}, {.kind = Average::ema, .start = 9}).empty());
  CHECK(said({.step_every = 10}, {.start = 10}).empty());
}

TEST_CASE("a run that is extended says how its learning rate jumps, and one that just goes on says nothing") {
  const auto backend = make_backend("reference");
  MemoryVfs vfs;
  const auto go_on = [&](std::int64_t max_updates, std::int64_t stop_at, double lr, const char* schedule) {
    TrainerOptions o = plain(lr, max_updates);
    o.schedule = {.name = schedule};
    o.stop_at = stop_at;
    o.folder = "run";
    o.vfs = &vfs;
    o.resume = vfs.exists("run/last.safetensors");
    std::string text;
    o.warn = [&](const std::string& line) { text += line + "\n"; };
    Trainer(std::make_shared<Constant>(), *backend, o).fit();
    return text;
  };
  CHECK(go_on(8, 4, 0.5, "cosine").empty());
  CHECK(go_on(8, 8, 0.5, "cosine").empty());
  const std::string text = go_on(16, 12, 0.5, "cosine");
  CHECK(text.find("the learning rate was 0.0190301 in update 8 and is 0.25 in the next one") == 0);
  CHECK(text.find("set train.schedule = constant, train.warmup = 0 and train.lr = 0.0190301") != std::string::npos);
  CHECK(go_on(16, 14, 0.5, "cosine").empty());
  CHECK(go_on(16, 16, 0.05, "constant").find("the learning rate was") == 0);
}

TEST_CASE("a schedule stays above its lowest learning rate, and a lower rate of the run stays as it is") {
  const ScheduleOptions step{
      .name = "step", .warmup = 2, .cooldown = 4, .factor = 0.1, .min_lr = 0.05, .step_every = 3};
  CHECK(scheduled_lr(step, 1, 1, 100) == 0.5);
  CHECK(scheduled_lr(step, 1, 6, 100) == doctest::Approx(0.1));
  CHECK(scheduled_lr(step, 1, 9, 100) == 0.05);
  CHECK(scheduled_lr(step, 1, 96, 100) == 0.05);
  CHECK(scheduled_lr(step, 1, 100, 100) == doctest::Approx(0.01));
  CHECK(scheduled_lr(step, 0.01, 6, 100) == 0.01);
  const ScheduleOptions plateau{.name = "plateau", .factor = 0.5, .min_lr = 0.3};
  CHECK(scheduled_lr(plateau, 1, 1, 10, 1) == 0.5);
  CHECK(scheduled_lr(plateau, 1, 1, 10, 2) == 0.3);
}

TEST_CASE("a plateau of validations multiplies the learning rate, and a resumed run remembers it") {
  const ScheduleOptions s{.name = "plateau", .factor = 0.5, .plateau_patience = 2};
  PlateauState state;
  std::vector<double> rates;
  for (const bool better : {true, false, true, false, false, false, false}) {
    after_validation(s, better, state);
    rates.push_back(scheduled_lr(s, 1, 1, 10, state.plateaus));
  }
  CHECK(rates == std::vector<double>{1, 1, 1, 1, 0.5, 0.5, 0.25});

  const auto task = std::make_shared<Constant>();
  TrainerOptions o = plain(1e-30, 10);  // nothing moves: the first validation stays the best
  o.validate_every = 1;
  o.log_every = 1;
  o.schedule = s;
  double lr = 0;
  const auto backend = make_backend("reference");
  Trainer(task, *backend, o).fit([&](const Progress& p) { lr = p.lr; });
  CHECK(lr == doctest::Approx(1e-30 / 16));  // nine validations without a better one: four plateaus
}

TEST_CASE("groups scale the learning rate, freeze and choose their own weight decay; the first match counts") {
  const auto task = std::make_shared<Constant>();
  TrainerOptions o = plain(0.1, 1);
  o.groups = {{.match = "*.matrix", .lr_scale = 0.5}, {.match = "layer.*", .lr_scale = 0}};
  TensorMap p = trained(task, o);
  check_values(p.at("layer.matrix"), {0.85, 0.8, 1, 0.975});
  check_values(p.at("layer.vector"), {1, 1});
  o.groups = {{.match = "*vector", .weight_decay = 1}};
  check_values(trained(task, o).at("layer.vector"), {0.6, 0.6});  // 1 - 0.1 (3 + 1)
}

TEST_CASE("weight decay leaves biases and gains alone, unless asked") {
  const auto task = std::make_shared<Constant>();
  TrainerOptions o = plain(0.1, 1);
  o.optimizer.weight_decay = 2;
  TensorMap p = trained(task, o);
  check_values(p.at("layer.matrix"), {0.5, 0.4, 0.8, 0.75});
  check_values(p.at("layer.vector"), {0.7, 0.7});
  o.optimizer.decay_vectors = true;
  check_values(trained(task, o).at("layer.vector"), {0.5, 0.5});
}

TEST_CASE("lion moves every element by lr in the direction of its momentum") {
  const auto task = std::make_shared<Constant>();
  TrainerOptions o = plain(0.1, 2);
  o.optimizer = {.name = "lion", .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99};
  TensorMap p = trained(task, o);
  check_values(p.at("layer.matrix"), {0.8, 0.8, 1, 0.8});
  o.optimizer.weight_decay = 1;
  o.max_updates = 1;
  p = trained(task, o);
  check_values(p.at("layer.matrix"), {0.8, 0.8, 0.9, 0.8});  // 1 (1 - 0.1) - 0.1 sign
  check_values(p.at("layer.vector"), {0.9, 0.9});
}

TEST_CASE("clipping acts by value, by unit and by norm, in this order") {
  const auto task = std::make_shared<Constant>();
  TrainerOptions o = plain(1, 1);
  o.clip = {.value = 2, .norm = 0};
  TensorMap p = trained(task, o);
  check_values(p.at("layer.matrix"), {-1, -1, 1, 0.5});
  check_values(p.at("layer.vector"), {-1, -1});
  // Rows of the matrix: norm of weights sqrt(2); gradients of norm 5 and 0.5. Vectors are left as they are.
  o.clip = {.adaptive = 0.5, .norm = 0};
  p = trained(task, o);
  const double scale = 0.5 * std::sqrt(2.0) / 5;
  check_values(p.at("layer.matrix"), {1 - 3 * scale, 1 - 4 * scale, 1, 0.5});
  check_values(p.at("layer.vector"), {-2, -2});
  // The norm of weights counts as 1e-3 at least, so that what begins at zero can move.
  const auto zero = std::make_shared<Constant>();
  zero->start = 0;
  check_values(trained(zero, o).at("layer.matrix"), {-3e-4, -4e-4, 0, -5e-4});
  // After clipping by value: (2, 2, 0, 0.5) and (2, 2), of norm sqrt(16.25).
  o.clip = {.value = 2, .norm = 1};
  const double n = std::sqrt(16.25);
  check_values(trained(task, o).at("layer.matrix"), {1 - 2 / n, 1 - 2 / n, 1, 1 - 0.5 / n}, 1e-5);
}

TEST_CASE("gradients whose squares are too large for f32 are clipped on every backend") {
  for (const std::string& name : computing_backends()) {
    CAPTURE(name);
    const auto backend = make_backend(name);
    // What the first element becomes. Rows of the matrix have weights of norm sqrt(2), and vectors are not clipped by
    // unit: (3, 3) counts in the norm.
    struct Row {
      ClipOptions clip;
      double step;
    };
    const Row rows[] = {{{.norm = 1}, 1},
                        {{.value = 1, .norm = 0}, 1},
                        {{.adaptive = 0.5, .norm = 0}, std::sqrt(0.5)},
                        {{.adaptive = 0.5, .norm = 1}, std::sqrt(0.5 / (0.5 + 0.25 + 18))}};
    for (const float size : {1e20F, 1e30F, 3e38F})
      for (const Row& row : rows) {
        CAPTURE(size);
        CAPTURE(row.step);
        const auto task = std::make_shared<Constant>();
        task->x = {size, 0, 0, 0.5F};
        TrainerOptions o = plain(0.25, 1);
        o.clip = row.clip;
        Trainer trainer(task, *backend, o);
        CHECK(trainer.fit().skipped_updates == 0);
        CHECK(trainer.parameters().at("layer.matrix").at(0) == doctest::Approx(1 - 0.25 * row.step).epsilon(1e-5));
      }
    // The gradients are finite and an optimizer cannot square them: nothing changes.
    const auto task = std::make_shared<Constant>();
    task->x = {1e20F, 0, 0, 0.5F};
    TrainerOptions o = plain(0.25, 1);
    o.optimizer.name = "adam";
    std::string said;
    o.warn = [&](const std::string& text) { said = text; };
    CHECK(Trainer(task, *backend, o).fit().skipped_updates == 1);
    CHECK(said.find("their squares are too large for f32") != std::string::npos);
  }
}

TEST_CASE("the norm of gradients whose squares are too large is reported, and small gradients keep their bits") {
  const auto backend = make_backend("reference");
  const auto task = std::make_shared<Constant>();
  task->x = {3e25F, 4e25F, 0, 0};
  TrainerOptions o = plain(1, 1);
  o.clip.norm = 1;
  o.log_every = 1;
  double norm = 0;
  Trainer trainer(task, *backend, o);
  trainer.fit([&](const Progress& p) { norm = p.gradient_norm; });
  CHECK(norm == doctest::Approx(5e25).epsilon(1e-6));
  check_values(trainer.parameters().at("layer.matrix"), {0.4, 0.2, 1, 1});
  check_values(trainer.parameters().at("layer.vector"), {1, 1});
}

TEST_CASE("accumulated batches give the update of one large batch") {
  ClassifyOptions c;
  c.model.hidden = 5;
  c.model.bidirectional = true;
  c.steps = 4;
  c.divide = 4;
  c.validation = 0.05;
  c.test = 0.05;
  const auto classify = [&](std::int64_t batch) {
    c.batch = batch;
    return make_classify(c, small_rows(), "small rows");
  };
  TrainerOptions small = plain(0.1, 7), large = small;
  small.optimizer = large.optimizer = {.name = "adam", .lr = 0.02};
  small.accumulate = 3;
  const auto few = classify(4), many = classify(12);  // 36 rows
  REQUIRE(few->n_batches(Split::train) == 9);
  REQUIRE(many->n_batches(Split::train) == 3);
  const TensorMap a = trained(few, small), b = trained(many, large);
  CHECK(distance(a, b) < 2e-5);  // seven updates in f32, sums in another order, divided by sqrt(v) of Adam
  // An epoch whose last update has fewer batches: rows 4+4+4, ..., of 36 with batches of 5 -> 8 batches, 3 + 3 + 2.
  const auto uneven = classify(5);
  REQUIRE(uneven->n_batches(Split::train) == 8);
  small.max_updates = 0;
  small.epochs = 2;
  const auto backend = make_backend("reference");
  CHECK(Trainer(uneven, *backend, small).fit().updates == 6);
}

TEST_CASE("a bad batch among those accumulated skips the update and leaves nothing behind") {
  class Poisoned : public Constant {
   public:
    Batch batch(Split s, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
      Batch b = Constant::batch(s, seed, epoch, index);
      if (index == 2) b.inputs.at("x").set(0, std::nan(""));
      return b;
    }
  };
  TrainerOptions o = plain(0.1, 3);
  o.accumulate = 2;
  const auto backend = make_backend("reference");
  Trainer trainer(std::make_shared<Poisoned>(), *backend, o);
  const TrainResult r = trainer.fit();
  CHECK(r.skipped_updates == 1);
  check_values(trainer.parameters().at("layer.matrix"), {1 - 0.6, 1 - 0.8, 1, 0.9});  // two good updates
}

TEST_CASE("the average of parameters is what is validated and given") {
  const auto task = std::make_shared<Constant>();
  // The vector goes 1, 0.7, 0.4, 0.1, -0.2.
  TrainerOptions o = plain(0.1, 4);
  o.average = {.kind = Average::mean};
  check_values(trained(task, o).at("layer.vector"), {0.25, 0.25});  // (0.7 + 0.4 + 0.1 - 0.2) / 4
  o.average.start = 2;
  check_values(trained(task, o).at("layer.vector"), {-0.05, -0.05});
  o.average = {.kind = Average::ema, .decay = 0.75};
  // 0.7; 0.75 * 0.7 + 0.25 * 0.4 = 0.625; 0.49375; 0.3203125
  check_values(trained(task, o).at("layer.vector"), {0.3203125, 0.3203125});

  const auto backend = make_backend("reference");
  o.max_updates = 1;
  Trainer trainer(task, *backend, o);
  const double before = trainer.evaluate(Split::validation).loss;
  trainer.fit();
  CHECK(trainer.evaluate(Split::validation).loss < before);  // bound to the averages from the first evaluation on
}

TEST_CASE("a run that patience ends has the parameters of its best validation") {
  // The loss falls for three updates, then only rises: lr changes its sign by a negative x.
  class Turning : public Constant {
   public:
    Batch batch(Split s, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
      Batch b = Constant::batch(s, seed, epoch, index);
      if (s == Split::train && index >= 3)
        for (int i = 0; i < 4; ++i) b.inputs.at("x").set(i, -20);
      return b;
    }
  };
  const auto backend = make_backend("reference");
  TrainerOptions o = plain(0.01, 50);
  o.validate_every = 1;
  o.patience = 4;
  Trainer trainer(std::make_shared<Turning>(), *backend, o);
  const TrainResult r = trainer.fit();
  CHECK(r.out_of_patience);
  CHECK(r.updates == 7);
  CHECK(trainer.evaluate(Split::validation).loss == doctest::Approx(r.best_validation_loss));
}
