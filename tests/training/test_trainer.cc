// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "core/train/device/device_model.h"
#include "core/train/update/optimizer.h"
#include "core/train/update/update_graph.h"
#include "tests/support/compare.h"
#include "tests/training/small_tasks.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_trainer {

using namespace unroll;
using namespace unroll::testing;

namespace {

// loss = sum of w * x: the gradient of w is x, so that a test chooses it. The state counts the sum of all x.
class Linear : public Task {
 public:
  std::function<std::vector<float>(std::int64_t index)> values;
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    TaskGraph t;
    t.loss = sum(scope.parameter("w", {2}, Initializer::constant(1)) * x);
    const Type type{DType::f32, {}};
    const Value seen = scope.graph().input("state.seen", type);
    t.states.push_back({"seen", type, seen, seen + sum(x)});
    return t;
  }
  std::int64_t n_batches(Split) const override { return 100; }
  Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t index) const override {
    Batch b;
    b.inputs.emplace("x", Tensor::from<float>({2}, values(index)));
    return b;
  }
};

TrainerOptions sgd(double lr, double clip, std::int64_t updates) {
  TrainerOptions o;
  o.optimizer = {.name = "sgd", .lr = lr};
  o.clip = {.norm = clip};
  o.max_updates = updates;
  o.validate_every = 0;
  o.log_every = 1;
  o.warn = [](const std::string&) {};
  return o;
}

const float k_inf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("training lowers the loss of each task") {
  const auto backend = make_backend("reference");
  ForecastOptions f = plain_forecast();
  f.model.cell = "gru";
  f.model.hidden = 6;
  f.window = 6;
  f.batch = 16;
  std::string csv = "t,v\n";
  for (int t = 0; t < 120; ++t) csv += std::to_string(t) + "," + std::to_string(10 + 3 * std::sin(t * 0.7)) + "\n";
  for (const auto& task : {small_language_model(), small_classify(), make_forecast(f, csv, "sine")}) {
    TrainerOptions o = small_training(40);
    Trainer trainer(task, *backend, o);
    const double before = trainer.evaluate(Split::test).loss;
    const TrainResult r = trainer.fit();
    const double after = trainer.evaluate(Split::test).loss;
    CAPTURE(task->metadata().at("task"));
    CHECK(r.updates == 40);
    CHECK(after < 0.8 * before);
    CHECK(r.best_validation_loss <= r.last_validation_loss);
  }
}

TEST_CASE("an update clips the global norm, moves the parameters and reports loss and norm") {
  const auto backend = make_backend("reference");
  const auto task = std::make_shared<Linear>();
  task->values = [](std::int64_t) { return std::vector<float>{3, 4}; };
  struct Row {
    double clip, first, second;
  };
  // gradient (3, 4), norm 5; lr 0.1; clipped to norm 1: (0.6, 0.8)
  for (const Row& row : {Row{0, 0.7, 0.6}, Row{1, 0.94, 0.92}, Row{50, 0.7, 0.6}}) {
    Trainer trainer(task, *backend, sgd(0.1, row.clip, 1));
    Progress seen{};
    trainer.fit([&](const Progress& p) { seen = p; });
    const Tensor w = trainer.parameters().at("w");
    CHECK(w.at(0) == doctest::Approx(row.first).epsilon(1e-6));
    CHECK(w.at(1) == doctest::Approx(row.second).epsilon(1e-6));
    CHECK(seen.loss == doctest::Approx(7));
    CHECK(seen.gradient_norm == doctest::Approx(5));
    CHECK(seen.lr == 0.1);
  }
}

TEST_CASE("an update that is not finite changes nothing, is counted, and the next one goes on") {
  const auto backend = make_backend("reference");
  for (const float poison : {std::nanf(""), k_inf, 3e38f}) {  // 3e38: the loss is finite, the square is not
    const auto task = std::make_shared<Linear>();
    task->values = [&](std::int64_t index) { return std::vector<float>{1, index == 1 ? poison : 1}; };
    std::vector<std::string> warnings;
    TrainerOptions o = sgd(0.1, /*clip=*/0, 3);
    o.optimizer = {.name = "adam", .lr = 0.1};
    o.warn = [&](const std::string& text) { warnings.push_back(text); };
    std::vector<double> losses;
    const TrainResult r = Trainer(task, *backend, o).fit([&](const Progress& p) { losses.push_back(p.loss); });
    CHECK(r.skipped_updates == 1);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("skipped") != std::string::npos);
    CHECK(std::isnan(losses[1]));  // no good update since the last line
    CHECK(std::isfinite(losses[2]));

    o.max_updates = 1;
    Trainer one(task, *backend, o), two(task, *backend, o);
    one.fit();
    const TensorMap before = one.parameters();
    o.max_updates = 2;
    Trainer both(task, *backend, o);
    both.fit();
    CHECK(same_bits(before, both.parameters()));

    DeviceModel model(task, *backend, o);
    for (std::int64_t u = 1; u <= 2; ++u) model.update(task->batch(Split::train, 0, 0, u - 1), {0.1, u});
    CHECK(model.tensors().carried().downloaded().at("state.seen").at(0) == 2);
    CHECK(model.tensors().carried().downloaded().at("optimizer.mean.w").all_finite());
  }
}

TEST_CASE("too many bad updates in a row stop the run with a numeric error that names the input") {
  const auto backend = make_backend("reference");
  const auto task = std::make_shared<Linear>();
  task->values = [](std::int64_t index) { return std::vector<float>{1, index >= 4 && index != 6 ? k_inf : 1}; };
  Trainer trainer(task, *backend, sgd(0.1, 1, 50));
  std::int64_t last = 0;
  try {
    trainer.fit([&](const Progress& p) { last = p.update; });
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::numeric);
    CHECK(std::string(e.what()).find("3 updates in a row") != std::string::npos);
    CHECK(std::string(e.what()).find("'x'") != std::string::npos);
  }
  CHECK(last == 9);  // 5 and 6 were bad, 7 good, 8 to 10 bad
  CHECK(trainer.parameters().at("w").all_finite());
}

TEST_CASE("a run of bad updates is noticed although nothing is logged and later updates are good") {
  const auto backend = make_backend("reference");
  const auto task = std::make_shared<Linear>();
  task->values = [](std::int64_t index) { return std::vector<float>{1, index >= 4 && index <= 6 ? k_inf : 1}; };
  TrainerOptions o = sgd(0.1, 1, 50);
  o.log_every = 0;
  CHECK_THROWS_WITH_AS(Trainer(task, *backend, o).fit(), doctest::Contains("3 updates in a row"), Error);
}

TEST_CASE("two windows with carried state are one window of twice the length, forward") {
  const auto backend = make_backend("reference");
  for (const char* cell : {"lstm", "gru", "mgu"}) {
    LanguageModelOptions o = small_language_options();
    o.model.cell = cell;
    o.evaluation_batch = 2;
    o.validation = 0.1;
    o.test = 0.4;
    const auto short_windows = small_language_model(o);
    o.steps *= 2;
    const auto long_windows = small_language_model(o);
    TrainerOptions t = small_training(0);
    const double a = Trainer(short_windows, *backend, t).evaluate(Split::test).loss;
    const double b = Trainer(long_windows, *backend, t).evaluate(Split::test).loss;
    CHECK(short_windows->n_batches(Split::test) > long_windows->n_batches(Split::test));
    CHECK(a == doctest::Approx(b).epsilon(1e-6));  // f32 sums in another order
  }
}

TEST_CASE("training carries the state from window to window and drops it where streams start again") {
  const auto backend = make_backend("reference");
  LanguageModelOptions lo = small_language_options();
  lo.model.dropout = 0;
  const auto task = small_language_model(lo);
  TrainerOptions o = small_training(0);
  o.optimizer = {.name = "sgd", .lr = 1e-30};  // the parameters stay: only states move
  DeviceModel model(task, *backend, o);
  REQUIRE(task->n_batches(Split::train) >= 3);
  for (std::int64_t i = 0; i < 3; ++i) model.update(task->batch(Split::train, 0, 0, i), {1e-30, i + 1});
  const TensorMap carried = model.tensors().carried().downloaded();
  // The same three windows in one.
  LanguageModelOptions whole_options = lo;
  whole_options.steps = lo.steps * 3;
  const auto whole_task = small_language_model(whole_options);
  DeviceModel whole(whole_task, *backend, o);
  whole.update(whole_task->batch(Split::train, 0, 0, 0), {1e-30, 1});
  for (const char* name : {"state.0", "state.1"}) {
    const Tensor a = carried.at(name), b = whole.tensors().carried().downloaded().at(name);
    REQUIRE(a.type() == b.type());
    CHECK(std::fabs(a.at(0)) > 1e-3);
    for (std::int64_t i = 0; i < a.elements(); ++i) CHECK(a.at(i) == doctest::Approx(b.at(i)).epsilon(1e-5));
  }
  // Batch 0 starts the streams: afterwards the state is as after the first window ever.
  model.update(task->batch(Split::train, 0, 1, 0), {1e-30, 4});
  DeviceModel fresh(task, *backend, o);
  fresh.update(task->batch(Split::train, 0, 0, 0), {1e-30, 1});
  const auto state_of = [](const DeviceModel& m) {
    return TensorMap{{"s", m.tensors().carried().download("state.0")}};
  };
  CHECK(same_bits(state_of(model), state_of(fresh)));
}

TEST_CASE("what is logged, validated or saved does not change the numbers") {
  const auto backend = make_backend("reference");
  TrainerOptions plain = small_training(12), busy = small_training(12);
  plain.validate_every = 0;
  plain.log_every = 0;
  busy.validate_every = 1;
  busy.log_every = 1;
  Trainer a(small_language_model(), *backend, plain), b(small_language_model(), *backend, busy);
  a.fit();
  b.fit();
  CHECK(same_bits(a.parameters(), b.parameters()));
}

TEST_CASE("the seed decides everything and another seed gives other numbers") {
  const auto backend = make_backend("reference");
  const auto after = [&](std::uint64_t seed) {
    TrainerOptions o = small_training(3);
    o.seed = seed;
    Trainer t(small_classify(), *backend, o);
    t.fit();
    return t.parameters();
  };
  CHECK(same_bits(after(1), after(1)));
  CHECK_FALSE(same_bits(after(1), after(2)));
}

TEST_CASE("patience ends a run that gets no better") {
  const auto backend = make_backend("reference");
  const auto task = std::make_shared<Linear>();
  task->values = [](std::int64_t) { return std::vector<float>{1, 1}; };
  TrainerOptions o = sgd(1e-30, 1, 50);  // nothing moves: the first validation stays the best
  o.validate_every = 2;
  o.patience = 3;
  const TrainResult r = Trainer(task, *backend, o).fit();
  CHECK(r.out_of_patience);
  CHECK(r.updates == 8);
}

TEST_CASE("parameters can be set by name, and wrong ones are refused") {
  const auto backend = make_backend("reference");
  Trainer trainer(small_classify(), *backend, small_training(1));
  TensorMap p = trainer.parameters();
  p.at("output.bias").set(0, 5);
  trainer.set_parameters(p);
  CHECK(trainer.parameters().at("output.bias").at(0) == 5);
  TensorMap missing = p, unknown = p, wrong = p;
  missing.erase("output.bias");
  unknown.emplace("more", Tensor());
  wrong.at("output.bias") = Tensor(DType::f32, {7});
  CHECK_THROWS_WITH_AS(trainer.set_parameters(missing), doctest::Contains("output.bias"), Error);
  CHECK_THROWS_WITH_AS(trainer.set_parameters(unknown), doctest::Contains("more"), Error);
  CHECK_THROWS_WITH_AS(trainer.set_parameters(wrong), doctest::Contains("output.bias"), Error);
}

TEST_CASE("a trained language model generates text from its metadata and parameters, the same for the same seed") {
  const auto backend = make_backend("reference");
  const auto task = small_language_model();
  Trainer trainer(task, *backend, small_training(30));
  trainer.fit();
  const auto text = [&](std::uint64_t seed, double temperature) {
    std::string all;
    generate(task->metadata(), trainer.parameters(), *backend,
             {.prompt = "the ", .length = 30, .temperature = temperature, .seed = seed},
             [&](std::string_view c) { all += c; });
    return all;
  };
  CHECK(text(1, 1).size() == 30);
  CHECK(text(1, 1) == text(1, 1));
  CHECK(text(1, 1) != text(2, 1));
  CHECK(text(1, 0) == text(2, 0));
}

TEST_CASE("an input that no batch and no state sets is refused before the first update") {
  // It would be zero, so that the loss is not finite.
  class Forgetful : public TinyTask {
   public:
    explicit Forgetful(bool in_training_only) : in_training_only_(in_training_only) {}
    TaskGraph build(Scope& scope, const Batch& like) const override {
      TaskGraph t = TinyTask::build(scope, like);
      if (scope.training() || !in_training_only_)
        t.loss = t.loss / scope.graph().input("forgotten", {DType::f32, {}});
      return t;
    }

   private:
    bool in_training_only_;
  };
  const auto backend = make_backend("reference");
  for (const bool in_training_only : {false, true})
    for (const std::int64_t accumulate : {1, 2}) {
      TrainerOptions o = small_training(4);
      o.accumulate = accumulate;
      const auto task = std::make_shared<Forgetful>(in_training_only);
      const Result<TrainResult> fitted = attempt([&] { return Trainer(task, *backend, o).fit(); });
      REQUIRE(!fitted.ok());
      CHECK(fitted.error().kind() == ErrorKind::usage);
      CHECK(std::string(fitted.error().what()).find("input 'forgotten' is in no batch") != std::string::npos);
    }
}

TEST_CASE("a run reports wrong options before it starts") {
  const auto backend = make_backend("reference");
  const auto refused = [&](const char* part, const std::function<void(TrainerOptions&)>& change) {
    TrainerOptions o = small_training(1);
    change(o);
    CHECK_THROWS_WITH_AS(Trainer(small_classify(), *backend, o), doctest::Contains(part), Error);
  };
  refused("Did you mean rmsprop?", [](TrainerOptions& o) { o.optimizer.name = "rmsprob"; });
  refused("train.lr is -1. It must be at least 0", [](TrainerOptions& o) { o.optimizer.lr = -1; });
  refused("Did you mean cosine?", [](TrainerOptions& o) { o.schedule.name = "cosin"; });
  refused("train.clip_norm is nan", [](TrainerOptions& o) { o.clip.norm = std::nan(""); });
  refused("train.clip_value is -1", [](TrainerOptions& o) { o.clip.value = -1; });
  refused("train.average_decay is 1", [](TrainerOptions& o) { o.average.decay = 1; });
  refused("train.accumulate is 0. It must lie between 1 and 100000", [](TrainerOptions& o) { o.accumulate = 0; });
  refused("train.warmup is -1. It must be at least 0", [](TrainerOptions& o) { o.schedule.warmup = -1; });
  refused("train.on_bad is \"7\"", [](TrainerOptions& o) { o.on_bad = static_cast<OnBad>(7); });
  refused("matches no parameter", [](TrainerOptions& o) { o.groups = {{.match = "outptu.*"}}; });
  refused("lr_scale", [](TrainerOptions& o) { o.groups = {{.match = "*", .lr_scale = -1}}; });
  refused("groups freeze all", [](TrainerOptions& o) { o.groups = {{.match = "*", .lr_scale = 0}}; });
}

}  // namespace test_trainer
