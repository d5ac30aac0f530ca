// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/train/loop/prefetch.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

Batch numbered(std::int64_t update) {
  Batch b;
  b.inputs.emplace("n", Tensor::scalar(DType::i32, static_cast<double>(update)));
  return b;
}
std::int64_t number_of(const std::vector<Batch>& batches) {
  return static_cast<std::int64_t>(batches.at(0).inputs.at("n").at(0));
}

}  // namespace

TEST_CASE("batches come in order, from any update on, and no more are made ahead than asked for") {
  for (const int depth : {0, 1, 3}) {
    std::atomic<std::int64_t> made = 0;
    Prefetch p([&](std::int64_t update) { ++made; return std::vector{numbered(update)}; }, depth, 20);
    CHECK(made == 0);
    for (const std::int64_t update : {1, 2, 3, 7, 8, 4, 5, 19, 20}) CHECK(number_of(p.take(update)) == update);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(made <= 9 + 3 * (depth + 1));  // three jumps drop what waits and what is being made
    CHECK(number_of(p.take(21)) == 21);
  }
}

TEST_CASE("what making a batch throws arrives with its update, and the thread goes on") {
  Prefetch p(
      [](std::int64_t update) {
        if (update == 3) throw Error(ErrorKind::input_file, "line 7", "no number");
        return std::vector{numbered(update)};
      },
      2, 10);
  CHECK(number_of(p.take(1)) == 1);
  CHECK(number_of(p.take(2)) == 2);
  CHECK_THROWS_WITH_AS(p.take(3), doctest::Contains("line 7"), Error);
  CHECK(number_of(p.take(4)) == 4);
}

TEST_CASE("a training whose batches are slow to make waits less with prefetching, and gives the same bits") {
  class Slow : public TinyTask {
   public:
    Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
      if (split == Split::train) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return TinyTask::batch(split, seed, epoch, index);
    }
  };
  const auto backend = make_backend("reference");
  const auto train = [&](int prefetch, double& wait) {
    TrainerOptions o = small_training(30);
    o.prefetch = prefetch;
    Trainer trainer(std::make_shared<Slow>(), *backend, o);
    wait = trainer.fit({}, [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // stands for the update
      return false;
    }).data_wait;
    return trainer.parameters().at("w");
  };
  double without = 0, with = 0;
  const Tensor a = train(0, without), b = train(3, with);
  for (std::int64_t i = 0; i < a.elements(); ++i) CHECK(a.at(i) == b.at(i));
  CHECK(without > 0.05);
  CHECK(with < without);
}

TEST_CASE("time for which batches are waited for is counted, also when they are made ahead") {
  constexpr std::chrono::milliseconds k_each{10};
  for (const int depth : {0, 2}) {
    CAPTURE(depth);
    Prefetch p(
        [&](std::int64_t update) {
          std::this_thread::sleep_for(k_each);
          return std::vector{numbered(update)};
        },
        depth, 20);
    for (std::int64_t update = 1; update <= 6; ++update) p.take(update);
    // Nothing is done in between, but by the machine: of six times two are surely waited for.
    CHECK(p.seconds_waited() >= 2 * std::chrono::duration<double>(k_each).count());
  }
}
