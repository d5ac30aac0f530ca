// SPDX-License-Identifier: Apache-2.0
// Training and streams on the strict device: their plans give every input they overwrite its donor, and an update needs
// nothing from the host but its batch.
#include <doctest/doctest.h>

#include <cstdio>
#include <ranges>

#include "core/train/device/device_model.h"
#include "core/train/update/control.h"
#include "tests/support/each_backend.h"
#include "tests/support/strict_backend.h"
#include "tests/training/small_tasks.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

const char* const k_optimizers[] = {"sgd", "adam", "adamw", "rmsprop", "adagrad"};
const char* const k_cells[] = {"rnn", "gru", "lstm"};

void train(std::shared_ptr<const Task> task, StrictBackend& backend, const std::string& optimizer) {
  TrainerOptions options = small_training(3);
  options.optimizer.name = optimizer;
  options.validate_every = 2;
  Trainer(std::move(task), backend, options).fit();
}

}  // namespace

TEST_CASE("the plans of training and evaluation keep their promises") {
  int n = 0;
  for (const std::string& name : testing::computing_backends())
    for (const char* optimizer : k_optimizers) {
      CAPTURE(name);
      CAPTURE(optimizer);
      StrictBackend backend(name);
      CHECK_NOTHROW(train(std::make_shared<TinyTask>(), backend, optimizer));
      CHECK_NOTHROW(train(small_classify(), backend, optimizer));
      for (const char* cell : k_cells) {
        LanguageModelOptions options = small_language_options();
        options.model.cell = cell;
        CHECK_NOTHROW(train(small_language_model(options), backend, optimizer));
      }
      n += backend.n_plans();
    }
  std::printf("%d plans of training and evaluation keep their promises\n", n);
}

TEST_CASE("the plans of streams keep their promises") {
  int n = 0;
  for (const char* cell : k_cells)
    for (const std::int64_t chunk : {1, 4})
      for (const WeightFormat weights : {WeightFormat::f32, WeightFormat::int8}) {
        CAPTURE(cell);
        CAPTURE(chunk);
        StrictBackend backend("cpu");
        const StreamModel model = recurrent_stream({.cell = cell, .hidden = 20, .layers = 2}, 5);
        Graph graph;
        Scope scope(graph, false);
        std::vector<Value> states;
        for (const Shape& shape : model.state_shapes(2)) states.push_back(filled(graph, {DType::f32, shape}, 0));
        model.build(scope, graph.input("x", {DType::f32, {1, 2, 5}}), states);
        const TensorMap parameters = initialize(scope.parameters(), 7);
        CHECK_NOTHROW(Stream(backend, model, parameters, {.lanes = 2, .chunk = chunk, .weights = weights}));
        n += backend.n_plans();
      }
  std::printf("%d plans of streams keep their promises\n", n);
}

TEST_CASE("control numbers arrive as they are") {
  Graph graph;
  const Control control(graph);
  graph.output("lr", control.lr);
  graph.output("rate", control.average_rate);
  graph.output("key", control.key);
  graph.output("update", control.update);
  const auto backend = make_backend("cpu", {.threads = 1});
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0xfedcba9876543210}, ~std::uint64_t{0}})
    for (const std::int64_t draw : {0, 65535, 65536, 0x7fffffff}) {
      const UpdateNumbers numbers{.lr = 1e-7, .average_rate = 0.1, .seed = seed, .draw = draw, .update = draw + 1};
      const TensorMap got = evaluate(graph, *backend, {{k_control, control_of(numbers)}});
      CHECK(got.at("lr").values<float>()[0] == 1e-7f);
      CHECK(got.at("rate").values<float>()[0] == 0.1f);
      CHECK(std::ranges::equal(got.at("key").bytes(), key_of(seed, draw).bytes()));
      const auto word = static_cast<std::uint32_t>(draw + 1);
      CHECK(got.at("update").values<std::int32_t>()[0] == static_cast<std::int32_t>(word));
    }
}

TEST_CASE("an update is given its batch and one small buffer, and gives nothing back") {
  StrictBackend backend("cpu");
  const auto task = small_classify();
  const TrainerOptions options = small_training(12);
  DeviceModel model(task, backend, options);
  const Batch batch = task->batch(Split::train, options.seed, 0, 0);
  model.update(batch, {.lr = 0.1, .update = 1});  // compiles
  std::vector<std::string> wanted;
  for (const auto& input : batch.inputs) wanted.push_back("upload " + std::to_string(input.second.bytes().size()));
  wanted.push_back("upload 44");
  wanted.push_back("run");
  for (std::int64_t update = 2; update <= 12; ++update) {
    backend.calls().clear();
    model.update(batch, {.lr = 0.1, .update = update});
    CHECK(backend.calls() == wanted);
  }
}
