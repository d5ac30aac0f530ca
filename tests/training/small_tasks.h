// SPDX-License-Identifier: Apache-2.0
// Tasks small enough for the reference interpreter, and the options to train them in a snapshot.
#pragma once

#include <memory>
#include <string>

#include "unroll/ir/ops.h"
#include "unroll/tasks/tasks.h"
#include "unroll/train/trainer.h"

namespace unroll::testing {

inline std::string small_text(int n_lines = 40) {
  std::string text;
  for (int i = 0; i < n_lines; ++i) text += "the cat sat on mat " + std::to_string(i * 7 % 10) + ".\n";
  return text;
}

inline LanguageModelOptions small_language_options() {
  LanguageModelOptions o;
  o.model.cell = "lstm";
  o.model.hidden = 6;
  o.model.dropout = 0.2;
  o.embedding = 4;
  o.batch = 3;
  o.steps = 5;
  o.evaluation_batch = 2;
  return o;
}
inline std::shared_ptr<const Task> small_language_model(const LanguageModelOptions& o = small_language_options()) {
  return make_language_model(o, small_text(), "small text");
}

// Forecasts whose options leave nothing to the data, of levels and by the network alone.
inline ForecastOptions plain_forecast() {
  ForecastOptions o;
  o.horizon = 1;
  o.difference = "none";
  o.scale = "series";
  o.autoregression = false;
  o.non_negative = "no";
  return o;
}
// The forms of a forecast: differences, scale, linear part, distribution.
struct ForecastFormCase {
  const char *difference, *scale;
  bool autoregression;
  const char* distribution = "none";
  void set(ForecastOptions& o) const {
    o.difference = difference;
    o.scale = scale;
    o.autoregression = autoregression;
    o.distribution = distribution;
  }
};
inline constexpr ForecastFormCase k_forecast_forms[] = {
    {"none", "series", false},    {"first", "series", false},          {"none", "window", false},
    {"seasonal", "series", true}, {"first,seasonal", "window", true}, {"first,2", "series", true},
    {"first", "series", false, "quantiles"}, {"none", "window", true, "student_t"},
};

// Two kinds of short sequences: rising and falling.
inline std::string small_rows(int n = 40) {
  std::string csv;
  for (int i = 0; i < n; ++i) {
    const int sign = i % 2 == 0 ? 1 : -1, base = i % 5;
    for (int t = 0; t < 4; ++t) csv += std::to_string(base + sign * t) + ",";
    csv += std::to_string(i % 2) + "\n";
  }
  return csv;
}
inline std::shared_ptr<const Task> small_classify() {
  ClassifyOptions o;
  o.model.hidden = 5;
  o.model.bidirectional = true;
  o.model.dropout = 0.1;
  o.steps = 4;
  o.divide = 4;
  o.batch = 7;  // the last batch of an epoch is smaller
  return make_classify(o, small_rows(), "small rows");
}

// A parameter pulled towards a batch through dropout, and a state that adds up the batches: next to nothing to compile.
class TinyTask : public Task {
 public:
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    const Value w = dropout_layer(scope, scope.parameter("w", x.shape(), Initializer::normal(1)), 0.25);
    const Type type{DType::f32, {}};
    const Value seen = scope.graph().input("state.seen", type);
    TaskGraph t;
    t.loss = sum(square(w - x)) + seen * 0.01;
    t.states.push_back({"seen", type, seen, seen + sum(x)});
    return t;
  }
  std::int64_t n_batches(Split) const override { return 4; }
  Batch batch(Split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    Batch b;
    const auto value = static_cast<float>((seed * 7 + static_cast<std::uint64_t>(epoch * 5 + index * 3)) % 11) / 11;
    b.inputs.emplace("x", Tensor::from<float>({2}, {value, 1 - value}));
    b.starts_stream = index == 0;
    return b;
  }
};

inline TrainerOptions small_training(std::int64_t max_updates) {
  TrainerOptions o;
  o.optimizer.lr = 0.02;
  o.schedule = {.name = "cosine", .warmup = 2, .final_fraction = 0.1};
  o.max_updates = max_updates;
  o.validate_every = 5;
  o.checkpoint_every = 6;
  o.log_every = 3;
  o.seed = 11;
  o.warn = [](const std::string&) {};
  return o;
}

// A task's model after a few updates.
struct Trained {
  std::shared_ptr<const Task> task;
  std::unique_ptr<Backend> backend = make_backend("cpu");
  Metadata metadata;
  TensorMap parameters;
  explicit Trained(std::shared_ptr<const Task> of, std::int64_t updates = 30) : task(std::move(of)) {
    Trainer trainer(task, *backend, small_training(updates));
    trainer.fit();
    metadata = task->metadata();
    parameters = trainer.parameters();
  }
};

}  // namespace unroll::testing
