// SPDX-License-Identifier: Apache-2.0
// The search for a learning rate, on losses whose best rate other runs have found.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/training/small_tasks.h"
#include "unroll/error.h"
#include "unroll/ops.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// loss = offset + sum of curvature * (w - x)^2, where x is a target and noise of its own in each batch: the offset and
// the noise hide how the loss falls. Validation has no noise.
class Bowl : public Task {
 public:
  std::vector<float> curvature{1, 1}, target{1, 1};
  float noise = 0, offset = 0;
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const auto n = static_cast<std::int64_t>(target.size());
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    const Value c = constant(scope.graph(), Tensor::from<float>({n}, curvature));
    TaskGraph t;
    t.loss = sum(square(scope.parameter("w", {n}, Initializer::constant(0)) - x) * c) + static_cast<double>(offset);
    return t;
  }
  std::int64_t n_batches(Split split) const override { return split == Split::train ? 7 : 1; }
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

// Of 3 and 1 times powers of ten.
double best_of_grid(const std::shared_ptr<const Task>& task, Backend& backend, TrainerOptions o) {
  double best = 0, least = HUGE_VAL;
  o.seed = 77;
  for (int power = -4; power <= 0; ++power)
    for (const double digit : {1.0, 3.0}) {
      o.optimizer.lr = digit * std::pow(10.0, power);
      Trainer trainer(task, backend, o);
      trainer.fit();
      const double loss = trainer.evaluate(Split::validation).loss;
      if (loss < least) best = o.optimizer.lr, least = loss;
    }
  return best;
}

}  // namespace

TEST_CASE("on fifty noisy losses the suggested rate is within a factor of 3 of the best of a grid") {
  const auto backend = make_backend("cpu", {.threads = 1});
  for (unsigned seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    const auto task = some_bowl(seed);
    const TrainerOptions o = training(seed % 2 == 0 ? "adam" : "sgd", 120);
    const double best = best_of_grid(task, *backend, o);
    const double suggested = find_lr(task, *backend, o).suggested;
    CHECK(suggested >= best / 3.01);
    CHECK(suggested <= best * 3.01);
  }
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

TEST_CASE("a search takes the batches of an update together") {
  LanguageModelOptions l = small_language_options();
  l.shards = 2;
  TrainerOptions o = training("adam", 20);
  o.accumulate = 2;
  const auto backend = make_backend("cpu", {.threads = 1});
  CHECK(find_lr(small_language_model(l), *backend, o, {.updates = 20}).suggested > 1e-4);
}
