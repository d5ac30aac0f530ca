// SPDX-License-Identifier: Apache-2.0
// The search for a learning rate, on losses whose best rate other runs have found.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "tests/support/memory_vfs.h"
#include "tests/training/small_tasks.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// loss = offset + sum of curvature * (w - x)^2, where x is a target and noise of its own in each batch: the offset and
// the noise hide how the loss falls. Validation has no noise.
class Bowl : public Task {
 public:
  std::vector<float> curvature{1, 1}, target{1, 1};
  float noise = 0, offset = 0;
  bool has_validation = true;
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const auto n = static_cast<std::int64_t>(target.size());
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    const Value c = constant(scope.graph(), Tensor::from<float>({n}, curvature));
    TaskGraph t;
    t.loss = sum(square(scope.parameter("w", {n}, Initializer::constant(0)) - x) * c) + static_cast<double>(offset);
    return t;
  }
  std::int64_t n_batches(Split split) const override { return split == Split::train ? 7 : has_validation; }
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    std::mt19937 random(static_cast<unsigned>(seed * 100003 + static_cast<std::uint64_t>(epoch * 7 + index)));
    std::vector<float> x = target;
    for (float& v : x)
      if (split == Split::train) v += noise * (static_cast<float>(random() % 2001) / 1000 - 1);
    Batch b;
    b.inputs.emplace("x", Tensor::from<float>({static_cast<std::int64_t>(x.size())}, x));
    return b;
  }
};

std::shared_ptr<const Task> some_bowl(unsigned seed) {
  std::mt19937 random(seed);
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() % 10001) / 10000;
  };
  auto bowl = std::make_shared<Bowl>();
  const double scale = std::pow(10, between(-1, 1)), spread = between(0, 2);
  bowl->curvature.clear();
  bowl->target.clear();
  for (int i = 0; i < 6; ++i) {
    bowl->curvature.push_back(static_cast<float>(scale * std::pow(10, -spread * i / 5)));
    bowl->target.push_back(static_cast<float>(between(-1, 1)));
  }
  bowl->noise = static_cast<float>(between(0, 1));
  bowl->offset = static_cast<float>(scale * between(0, 5));
  return bowl;
}

TrainerOptions training(const char* optimizer, std::int64_t updates) {
  TrainerOptions o;
  o.optimizer = {.name = optimizer, .lr = 1};
  o.schedule = {.name = "cosine"};
  o.max_updates = updates;
  o.validate_every = 0;
  o.warn = [](const std::string&) {};
  return o;
}

// Rates of 3 and 1 times powers of ten that train as well as the best one: within 2 % of what its loss falls.
std::vector<double> best_of_grid(const std::shared_ptr<const Task>& task, Backend& backend, TrainerOptions o) {
  MemoryVfs vfs;
  o.vfs = &vfs;
  Trainer trainer(task, backend, o);
  const Batch validation = task->batch(Split::validation, 0, 0, 0);
  const double start = trainer.evaluate(validation).loss;
  trainer.save("start");
  std::vector<std::pair<double, double>> tried;  // loss, rate
  for (double rate : {1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0}) {
    trainer.load("start");
    for (std::int64_t u = 0; u < o.max_updates; ++u) {
      const double done = static_cast<double>(u) / static_cast<double>(o.max_updates);
      trainer.update(task->batch(Split::train, 77, u / 7, u % 7), rate * 0.5 * (1 + std::cos(std::numbers::pi * done)));
    }
    tried.emplace_back(trainer.evaluate(validation).loss, rate);
  }
  const double least = std::min_element(tried.begin(), tried.end())->first;
  std::vector<double> good;
  for (const auto& [loss, rate] : tried)
    if (loss - least <= 0.02 * (start - least)) good.push_back(rate);
  return good;
}

}  // namespace

TEST_CASE("on 45 of 50 noisy losses at least the suggested rate is within a factor of 3 of the best of a grid") {
  const auto backend = make_backend("cpu", {.threads = 1});
  int n_within = 0;  // noise of short runs may hide the best rate
  for (unsigned seed = 0; seed < 50; ++seed) {
    const auto task = some_bowl(seed);
    const TrainerOptions o = training(seed % 2 == 0 ? "adam" : "sgd", 60);
    const std::vector<double> best = best_of_grid(task, *backend, o);
    const double suggested = find_lr(task, *backend, o).suggested;
    n_within += std::any_of(best.begin(), best.end(), [&](double rate) {
      return std::max(suggested, rate) <= 3.01 * std::min(suggested, rate);
    });
  }
  CHECK(n_within >= 45);
}

TEST_CASE("a rate is suggested below the one at which the loss diverges, and the trainer's own options stay") {
  const auto backend = make_backend("reference");
  const auto bowl = std::make_shared<Bowl>();  // plain descent converges below lr 1 and diverges above
  TrainerOptions o = training("sgd", 200);
  o.clip.norm = 0;
  std::int64_t told = 0;
  LrSearchOptions search{.from = 1e-4, .to = 1e3};
  search.trial = [&](const LrTrial&) { ++told; };
  const LrSearch found = find_lr(bowl, *backend, o, search);
  CHECK(found.points.size() < 100);  // it diverged
  CHECK(found.points.back().lr > 1);
  CHECK(found.suggested > 1e-2);
  CHECK(found.suggested < 1);
  CHECK(told == static_cast<std::int64_t>(found.trials.size()));
  CHECK_THROWS_AS(find_lr(bowl, *backend, o, {.from = 1, .to = 0.1}), Error);
  CHECK_THROWS_AS(find_lr(bowl, *backend, o, {.trial_updates = 1}), Error);
}

TEST_CASE("no rate is suggested where none lowers the loss by more than its noise") {
  const auto backend = make_backend("cpu", {.threads = 1});
  for (const bool has_validation : {true, false})
    for (const float noise : {0.1F, 1.0F}) {
      const auto bowl = std::make_shared<Bowl>();
      bowl->has_validation = has_validation;
      bowl->noise = noise;
      bowl->offset = 1;
      CHECK(find_lr(bowl, *backend, training("adam", 60)).suggested > 1e-3);
      bowl->target = {0, 0};  // the initial parameters are the best ones
      CHECK_THROWS_WITH(find_lr(bowl, *backend, training("adam", 60)),
                        doctest::Contains("no learning rate found: the loss of the initial parameters is 1"));
    }
}

TEST_CASE("a search takes the batches of an update together") {
  LanguageModelOptions l = small_language_options();
  l.shards = 2;
  TrainerOptions o = training("adam", 20);
  o.accumulate = 2;
  const auto backend = make_backend("cpu", {.threads = 1});
  CHECK(find_lr(small_language_model(l), *backend, o, {.updates = 20}).suggested > 1e-4);
}
