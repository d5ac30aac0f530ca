// SPDX-License-Identifier: Apache-2.0
// Statistics of an update: gradients, steps, saturated gates, dead units.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/each_backend.h"
#include "tests/support/temp_folder.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// loss = sum of w * x + sum of v * x: gradients are what the test chooses.
class TwoWeights : public Task {
 public:
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    TaskGraph t;
    t.loss = sum(scope.parameter("w", {2}, Initializer::constant(1)) * x) +
             sum(scope.parameter("v", {2}, Initializer::constant(0)) * x) * 2;
    return t;
  }
  std::int64_t n_batches(Split) const override { return 4; }
  Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t index) const override {
    Batch b;
    const auto scale = static_cast<float>(index + 1);
    b.inputs.emplace("x", Tensor::from<float>({2}, {3 * scale, 4 * scale}));
    return b;
  }
};

// A recurrent layer over given x [T,B,1] and lengths; the loss is the mean of its outputs.
class LayerTask : public Task {
 public:
  RecurrentModelOptions options;
  std::vector<float> x;              // [T=3, B=2, 1]
  std::vector<std::int32_t> lengths;  // [2]; empty: none
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value in = scope.graph().input("x", like.inputs.at("x").type());
    const Value ends = lengths.empty() ? Value() : scope.graph().input("lengths", like.inputs.at("lengths").type());
    TaskGraph t;
    t.loss = mean(recurrent_model(scope.child("net"), in, options, {}, ends).y);
    return t;
  }
  std::int64_t n_batches(Split) const override { return 1; }
  Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t) const override {
    Batch b;
    b.inputs.emplace("x", Tensor::from<float>({3, 2, 1}, x));
    if (!lengths.empty()) b.inputs.emplace("lengths", Tensor::from<std::int32_t>({2}, lengths));
    return b;
  }
};

TrainerOptions watching(std::int64_t updates) {
  TrainerOptions o;
  o.optimizer = {.name = "sgd", .lr = 0.1};
  o.max_updates = updates;
  o.validate_every = 0;
  o.log_every = 1;
  o.watch_every = 1;
  o.warn = [](const std::string&) {};
  return o;
}

// What the first update is seen to do when all parameters are zero but those given.
TrainingStatistics first_watch(const LayerTask& task, const TensorMap& given, const std::string& backend_name) {
  const auto backend = make_backend(backend_name);
  Trainer trainer(std::make_shared<LayerTask>(task), *backend, watching(1));
  TensorMap parameters = trainer.parameters();
  for (auto& [name, tensor] : parameters)
    tensor = given.contains(name) ? given.at(name) : Tensor(tensor.type());
  trainer.set_parameters(parameters);
  TrainingStatistics seen;
  trainer.fit([&](const Progress& p) { seen = p.statistics.value(); });
  return seen;
}

LayerTask layer(Op cell, std::int64_t hidden) {
  LayerTask task;
  task.options.cell = std::string(op_info(cell).name);
  task.options.hidden = hidden;
  task.x.assign(6, 0);
  return task;
}

}  // namespace

TEST_CASE("the norm of a gradient is that before clipping, the update ratio that of the step made") {
  const auto backend = make_backend("reference");
  // Of w the gradient is (3, 4), of v (6, 8); together they have norm sqrt(125) and are clipped to 1.
  Trainer trainer(std::make_shared<TwoWeights>(), *backend, watching(1));
  TrainingStatistics seen;
  trainer.fit([&](const Progress& p) { seen = p.statistics.value(); });
  CHECK(seen.update == 1);
  CHECK(seen.parameters.at("w").gradient_norm == doctest::Approx(5));
  CHECK(seen.parameters.at("v").gradient_norm == doctest::Approx(10));
  const double step = 0.1 * 5 / std::sqrt(125.0);
  CHECK(seen.parameters.at("w").update_ratio == doctest::Approx(step / std::sqrt(2.0)).epsilon(1e-5));
  CHECK(seen.parameters.at("v").update_ratio > 1e6);  // it was zero
  CHECK(seen.loops.empty());
}

TEST_CASE("with accumulation the gradient is that of all batches of the update") {
  const auto backend = make_backend("reference");
  TrainerOptions o = watching(1);
  o.accumulate = 2;
  o.groups = {{.match = "v", .lr_scale = 0}};
  Trainer trainer(std::make_shared<TwoWeights>(), *backend, o);
  TrainingStatistics seen;
  trainer.fit([&](const Progress& p) { seen = p.statistics.value(); });
  CHECK(seen.parameters.at("w").gradient_norm == doctest::Approx(7.5));  // the mean of 5 and 10
  CHECK(seen.parameters.size() == 1);                                     // v is frozen
}

TEST_CASE("saturated gates and dead units are counted as by hand") {
  for (const std::string& backend : testing::computing_backends()) {
    CAPTURE(backend);
    // tanh(10), tanh(-10), tanh(0), tanh(0) in every step
    const TrainingStatistics rnn = first_watch(
        layer(Op::rnn, 4), {{"net.bias_ih_l0", Tensor::from<float>({4}, {10, -10, 0, 0})}}, backend);
    REQUIRE(rnn.loops.contains("net.l0"));
    CHECK(rnn.loops.at("net.l0").saturated == doctest::Approx(0.5));
    CHECK(rnn.loops.at("net.l0").dead == doctest::Approx(0.5));

    LayerTask relu = layer(Op::rnn, 4);
    relu.options.nonlinearity = Nonlinearity::relu;
    const TrainingStatistics r =
        first_watch(relu, {{"net.bias_ih_l0", Tensor::from<float>({4}, {1, -1, 2, 0.5F})}}, backend);
    CHECK(r.loops.at("net.l0").saturated == 0);
    CHECK(r.loops.at("net.l0").dead == doctest::Approx(0.25));

    // i f g o of two units: i of the first open, o of the second shut; tanh(g) and tanh(c) are 0. Of ten columns two.
    const TrainingStatistics lstm = first_watch(
        layer(Op::lstm, 2), {{"net.bias_hh_l0", Tensor::from<float>({8}, {10, 0, 0, 0, 0, 0, 0, -10})}}, backend);
    CHECK(lstm.loops.at("net.l0").saturated == doctest::Approx(0.2));
    CHECK(lstm.loops.at("net.l0").dead == 0);
  }
}

TEST_CASE("a gate is saturated below 0.1 and above 0.9, a tanh beyond 0.9 on either side") {
  const auto logit = [](double p) { return static_cast<float>(std::log(p / (1 - p))); };
  const auto of = [](double y) { return static_cast<float>(std::atanh(y)); };
  for (const std::string& backend : testing::computing_backends()) {
    CAPTURE(backend);
    const Tensor four = Tensor::from<float>({4}, {of(0.91), of(0.89), of(-0.91), of(-0.89)});
    CHECK(first_watch(layer(Op::rnn, 4), {{"net.bias_ih_l0", four}}, backend).loops.at("net.l0").saturated ==
          doctest::Approx(0.5));
    // i and o of five columns i f g o tanh(c), then f and none; g is 0, and so is c.
    for (const bool shifted : {false, true}) {
      const Tensor gates = shifted ? Tensor::from<float>({4}, {logit(0.11), logit(0.91), 0, logit(0.89)})
                                   : Tensor::from<float>({4}, {logit(0.91), logit(0.89), 0, logit(0.09)});
      CHECK(first_watch(layer(Op::lstm, 1), {{"net.bias_hh_l0", gates}}, backend).loops.at("net.l0").saturated ==
            doctest::Approx(shifted ? 0.2 : 0.4));
    }
  }
}

TEST_CASE("a tanh that is saturated on both sides is not dead") {
  LayerTask task = layer(Op::rnn, 1);
  task.x = {9, -9, 9, -9, 9, -9};
  const TrainingStatistics seen = first_watch(task, {{"net.weight_ih_l0", Tensor::from<float>({1, 1}, {1})}}, "cpu");
  CHECK(seen.loops.at("net.l0").saturated == 1);
  CHECK(seen.loops.at("net.l0").dead == 0);
}

TEST_CASE("rows that have ended are not counted") {
  for (const std::string& backend : testing::computing_backends()) {
    LayerTask task = layer(Op::rnn, 2);
    task.options.bidirectional = true;
    task.lengths = {3, 1};
    task.x = {9, 0, 9, 99, 9, 99};  // steps of two rows; what stands at 99 has ended
    const Tensor ones = Tensor::from<float>({2, 1}, {1, 1});
    const TrainingStatistics seen =
        first_watch(task, {{"net.weight_ih_l0", ones}, {"net.weight_ih_l0_reverse", ones}}, backend);
    CAPTURE(backend);
    for (const char* loop : {"net.l0", "net.l0_reverse"}) {
      CHECK(seen.loops.at(loop).saturated == doctest::Approx(0.75));  // three of four rows
      CHECK(seen.loops.at(loop).dead == 0);
    }
  }
}

TEST_CASE("every layer, direction and user cell has its own line, the same on every backend") {
  LanguageModelOptions o = small_language_options();
  o.model.layers = 2;
  for (const char* cell : {"gru", "mgu", "lnlstm"}) {
    o.model.cell = cell;
    std::vector<TrainingStatistics> seen;
    for (const std::string& name : testing::computing_backends()) {
      const auto backend = make_backend(name);
      seen.emplace_back();
      Trainer trainer(small_language_model(o), *backend, watching(2));
      trainer.fit([&](const Progress& p) { seen.back() = p.statistics.value(); });
    }
    CAPTURE(cell);
    for (const TrainingStatistics& other : seen) {
      CHECK(seen[0].loops.size() == 2);
      REQUIRE(seen[0].loops.size() == other.loops.size());
      for (const auto& [name, loop] : seen[0].loops) {
        CHECK((name.ends_with("l0") || name.ends_with("l1")));
        CHECK(loop.saturated == doctest::Approx(other.loops.at(name).saturated));
      }
      for (const auto& [name, p] : seen[0].parameters)
        CHECK(p.gradient_norm == doctest::Approx(other.parameters.at(name).gradient_norm).epsilon(1e-4));
    }
  }
}

TEST_CASE("watching changes no number of a run and stands in metrics.jsonl") {
  const auto backend = make_backend("cpu");
  std::vector<std::vector<std::byte>> weights;
  for (const std::int64_t every : {0, 3}) {
    TempFolder folder;
    TrainerOptions o = small_training(12);
    o.precision = Precision::f16;  // gradients are those without the loss scale
    o.watch_every = every;
    o.folder = folder.path();
    Trainer trainer(small_language_model(), *backend, o);
    trainer.fit();
    std::vector<std::byte> bytes;
    for (const auto& [name, tensor] : trainer.parameters())
      bytes.insert(bytes.end(), tensor.bytes().begin(), tensor.bytes().end());
    weights.push_back(bytes);
    std::ifstream file(folder.path() + "/metrics.jsonl");
    int n = 0;
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      if (!json.contains("loops")) continue;
      ++n;
      CHECK(json["update"] == 3 * n);
      CHECK(json["parameters"].size() == trainer.parameters().size());
      for (const auto& p : json["parameters"]) CHECK((p["gradient_norm"] > 0 && p["gradient_norm"] < 100));
    }
    CHECK(n == (every > 0 ? 4 : 0));
  }
  CHECK((weights[0] == weights[1]));
}
