// SPDX-License-Identifier: Apache-2.0
// Training and streams on the strict device: their plans give every input they overwrite its donor, and an update needs
// nothing from the host but its batch.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

#include "tests/support/strict_backend.h"
#include "tests/training/small_tasks.h"
#include "unroll/stream.h"

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
  for (const char* name : {"cpu", "reference"})
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

TEST_CASE("nothing comes back to the host between updates") {
  StrictBackend backend("cpu");
  TrainerOptions options = small_training(12);
  options.validate_every = 0;
  options.checkpoint_every = 0;
  options.log_every = 0;
  Trainer trainer(small_classify(), backend, options);
  trainer.fit();
  const std::vector<std::string>& calls = backend.calls();
  const auto first = std::find(calls.begin(), calls.end(), "run");
  const auto last = std::find(calls.rbegin(), calls.rend(), "run").base();
  CHECK(std::count(first, last, "run") == 12);
  CHECK(std::count(first, last, "download") == 0);
  CHECK(std::count(first, last, "wait") == 0);
}
