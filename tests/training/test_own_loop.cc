// SPDX-License-Identifier: Apache-2.0
// A training loop of one's own computes what fit() computes, is saved and continued bit for bit, and refuses bad calls.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/compare.h"
#include "tests/support/refusal.h"
#include "tests/support/temp_folder.h"
#include "tests/training/small_tasks.h"
#include "unroll/model/network.h"
#include "unroll/support/error.h"
#include "unroll/train/optimizer.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// loss = mean (w x - y)^2; the prediction needs no y.
TaskGraph line(Scope& scope, const Inputs& in) {
  TaskGraph t;
  t.outputs = {{"y", linear_layer(scope.child("head"), in["x"], 1)}};
  if (in.has("y")) t.loss = mean(square(t.outputs[0].second - in["y"]));
  return t;
}
Batch line_batch(float x, float y) {
  Batch b;
  b.inputs = {{"x", Tensor::from<float>({1, 2}, {x, 1})}, {"y", Tensor::from<float>({1, 1}, {y})}};
  return b;
}

TrainerOptions quiet_options() {
  TrainerOptions o;
  o.warn = [](const std::string&) {};
  return o;
}

}  // namespace

TEST_CASE("updates of one's own give the bits of fit on the same batches") {
  const auto backend = make_backend("reference");
  for (const std::int64_t accumulate : {1, 3}) {
    TrainerOptions o = small_training(8);
    o.accumulate = accumulate;
    o.average.kind = Average::ema;
    const auto task = small_language_model();  // dropout, a schedule, carried states
    Trainer fitted(task, *backend, o), own(task, *backend, o);
    std::vector<double> losses;
    o.log_every = 1;
    Trainer logged(task, *backend, o);
    logged.fit([&](const Progress& p) {
      if (!p.validation_loss) losses.push_back(p.loss);
    });
    fitted.fit();
    const std::int64_t n = task->n_batches(Split::train), per_epoch = (n + accumulate - 1) / accumulate;
    for (std::int64_t update = 0; update < 8; ++update) {
      std::vector<Batch> batches;
      const std::int64_t from = update % per_epoch * accumulate;
      for (std::int64_t i = from; i < std::min(from + accumulate, n); ++i)
        batches.push_back(task->batch(Split::train, o.seed, update / per_epoch, i));
      const UpdateResult r = own.update(batches);
      CHECK(r.update == update + 1);
      CHECK(r.loss == losses.at(static_cast<std::size_t>(update)));
      CHECK(r.gradient_norm > 0);
      CHECK(r.metrics.contains("perplexity"));
    }
    CHECK(own.updates() == 8);
    CHECK(same_bits(own.parameters(), fitted.parameters()));
    CHECK(own.evaluate(Split::test).loss == fitted.evaluate(Split::test).loss);
  }
}

TEST_CASE("a trainer keeps a backend that it gets as a pointer, and refuses calls when another one has ended") {
  const auto task = make_task(line_batch(1, 2), line);
  Trainer keeps(task, make_backend("reference"), quiet_options());
  CHECK(keeps.update(line_batch(1, 2)).update == 1);

  Trainer ended(task, *make_backend("reference"), quiet_options());  // the backend ends here
  CHECK(refusal([&] { ended.update(line_batch(1, 2)); }).find("has been destroyed") != std::string::npos);
  CHECK(refusal([&] { ended.fit(); }).find("has been destroyed") != std::string::npos);
  CHECK(refusal([&] { (void)ended.parameters(); }).find("has been destroyed") != std::string::npos);
}

TEST_CASE("a saved loop continues bit for bit and its file is a model") {
  const TempFolder folder;
  const auto backend = make_backend("reference");
  const auto task = make_task(line_batch(1, 2), line);
  const auto train = [&](Trainer& trainer, int from, int to) {
    for (int i = from; i < to; ++i) trainer.update(line_batch(static_cast<float>(i % 5), static_cast<float>(i % 3)));
  };
  Trainer straight(task, *backend, quiet_options());
  train(straight, 0, 20);
  Trainer first(task, *backend, quiet_options());
  train(first, 0, 7);
  first.save(folder / "a.safetensors");
  Trainer second(task, *backend, quiet_options());
  second.load(folder / "a.safetensors");
  CHECK(second.updates() == 7);
  train(second, 7, 20);
  CHECK(same_bits(second.parameters(), straight.parameters()));
  CHECK(same_bits(load_model(folder / "a.safetensors").tensors, first.parameters()));

  TrainerOptions other = quiet_options();
  other.optimizer.name = "rmsprop";
  Trainer third(task, *backend, other);
  CHECK(refusal([&] { third.load(folder / "a.safetensors"); }).find("not in the model: optimizer.mean.head.bias") !=
        std::string::npos);
}

TEST_CASE("an update takes a learning rate of its own") {
  const auto backend = make_backend("reference");
  TrainerOptions o = quiet_options();
  o.optimizer = {.name = "sgd", .lr = 0.5};
  Trainer trainer(make_task(line_batch(1, 2), line), *backend, o);
  const TensorMap before = trainer.parameters();
  CHECK(trainer.update(line_batch(1, 2), 0.0).lr == 0);
  CHECK(same_bits(trainer.parameters(), before));
  CHECK(trainer.update(line_batch(1, 2)).lr == 0.5);
  CHECK_FALSE(same_bits(trainer.parameters(), before));
}

TEST_CASE("batches of one's own are evaluated and predicted without targets") {
  const auto backend = make_backend("reference");
  Trainer trainer(make_task(line_batch(1, 2), line), *backend, quiet_options());
  trainer.set_parameters({{"head.weight", Tensor::from<float>({1, 2}, {3, 1})},
                          {"head.bias", Tensor::from<float>({1}, {0.5f})}});
  CHECK(trainer.evaluate(line_batch(2, 7)).loss == doctest::Approx(0.25));
  CHECK(trainer.evaluate(std::vector{line_batch(2, 7), line_batch(2, 6.5f)}).loss == doctest::Approx(0.625));
  Batch question = line_batch(2, 0);
  question.inputs.erase("y");
  CHECK(trainer.predict(question).at("y").at(0) == doctest::Approx(7.5));
}

TEST_CASE("a bad batch is skipped, then stops the loop by name") {
  const auto backend = make_backend("reference");
  TrainerOptions o = quiet_options();
  o.max_bad_updates = 2;
  Trainer trainer(make_task(line_batch(1, 2), line), *backend, o);
  const TensorMap before = trainer.parameters();
  const Batch bad = line_batch(std::numeric_limits<float>::quiet_NaN(), 1);
  const UpdateResult r = trainer.update(bad);
  CHECK(r.skipped);
  CHECK(std::isnan(r.loss));
  CHECK(same_bits(trainer.parameters(), before));
  const std::string text = refusal([&] { trainer.update(bad); });
  CHECK(text.find("2 updates in a row") != std::string::npos);
  CHECK(text.find("'x'") != std::string::npos);
  CHECK_FALSE(trainer.update(line_batch(1, 2)).skipped);  // and goes on with good ones
}

TEST_CASE("calls that do not fit are refused, and the trainer still works") {
  const auto backend = make_backend("reference");
  Trainer trainer(make_task(line_batch(1, 2), line), *backend, quiet_options());
  CHECK(refusal([&] { trainer.update(std::vector{line_batch(1, 2), line_batch(1, 2)}); })
            .find("takes 1 to 1 batches (TrainerOptions::accumulate); got 2") != std::string::npos);
  CHECK(refusal([&] { trainer.update(std::span<const Batch>()); }).find("got 0") != std::string::npos);
  CHECK(refusal([&] { trainer.update(line_batch(1, 2), -1.0); }).find("lr must be 0 or above") != std::string::npos);
  CHECK(refusal([&] { trainer.fit(); }).find("the training set has no complete batch") != std::string::npos);
  Batch wide = line_batch(1, 2);
  wide.inputs["x"] = Tensor(DType::f32, {1, 3});
  CHECK(refusal([&] { trainer.update(wide); })
            .find("parameter 'head.weight' is f32[1,2], and a batch of x f32[1,3] y f32[1,1] needs f32[1,3]") !=
        std::string::npos);
  CHECK(refusal([&] { trainer.evaluate(wide); }).find("needs f32[1,3]") != std::string::npos);
  CHECK(trainer.update(line_batch(1, 2)).update == 1);
}

TEST_CASE("an optimizer step on a graph of one's own is the trainer's") {
  const auto backend = make_backend("reference");
  for (const char* name : {"sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"}) {
    TrainerOptions o = quiet_options();
    o.optimizer = {.name = name, .lr = 0.05, .momentum = 0.5, .weight_decay = 0.1};
    o.clip.norm = 0;
    Trainer trainer(make_task(line_batch(1, 2), line), *backend, o);

    Graph graph;
    Scope scope(graph);
    const Value x = graph.input("x", {DType::f32, {1, 2}}), y = graph.input("y", {DType::f32, {1, 1}});
    const Value loss = line(scope, Inputs({{"x", x}, {"y", y}})).loss;
    const TrainingStep step = append_training_step(scope, loss, o.optimizer);
    Program program(graph, *backend);
    TensorMap values = initialize(scope.parameters(), o.seed);
    for (const auto& [slot, zeros] : step.initial_slots) values.emplace(slot, zeros);
    for (int update = 1; update <= 4; ++update) {
      const Batch batch = line_batch(static_cast<float>(update), 1);
      TensorMap inputs = values;
      inputs.insert(batch.inputs.begin(), batch.inputs.end());
      inputs["lr"] = Tensor::scalar(DType::f32, 0.05);
      inputs["update"] = Tensor::scalar(DType::i32, update);
      values = program.run(inputs);
      trainer.update(batch);
    }
    for (const auto& [parameter, tensor] : trainer.parameters())
      CHECK(same_bits({{"p", values.at(parameter)}}, {{"p", tensor}}));
  }
}

TEST_CASE("factories return errors as values") {
  const auto backend = try_make_backend("reference");
  REQUIRE(backend.ok());
  const auto unknown = try_make_backend("abacus");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().kind() == ErrorKind::device);
  CHECK(where_of(unknown.error()) == "make_backend");
  CHECK(message_of(unknown.error()) == "unknown backend 'abacus'");
  CHECK(unknown.error().next().starts_with("Known: "));
  CHECK_THROWS_AS(unknown.value(), Error);

  const auto model = try_load_model("absent.safetensors");
  REQUIRE_FALSE(model.ok());
  CHECK(model.error().kind() == ErrorKind::input_file);
  CHECK(try_load_safetensors("absent.safetensors").error().kind() == ErrorKind::input_file);

  TrainerOptions o = quiet_options();
  o.accumulate = 0;
  CHECK(Trainer::try_create(make_task(line_batch(1, 2), line), **backend, o).error().kind() == ErrorKind::usage);
  Result<Trainer> trainer = Trainer::try_create(make_task(line_batch(1, 2), line), **backend, quiet_options());
  CHECK(trainer->update(line_batch(1, 2)).update == 1);
  Trainer moved = std::move(trainer).value();
  CHECK(moved.update(line_batch(1, 2)).update == 2);

  const StreamModel gru = recurrent_stream({.cell = "gru", .hidden = 3}, 2);
  CHECK(Stream::try_create(**backend, gru, {}).error().kind() == ErrorKind::input_file);
  Graph graph;
  graph.output("y", graph.input("x", {DType::f32, {2}}) * 2);
  Result<Program> program = Program::try_create(graph, **backend);
  REQUIRE(program.ok());
  CHECK(program->try_run({}).error().kind() == ErrorKind::usage);
  CHECK(program->try_run({{"x", Tensor(DType::f32, {2})}}).ok());
}
