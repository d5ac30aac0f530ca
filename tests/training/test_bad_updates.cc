// SPDX-License-Identifier: Apache-2.0
// Updates that are not finite: what is said, what is done, and that nothing of them stays.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/train/files/checkpoint.h"
#include "tests/support/memory_vfs.h"
#include "tests/support/setting.h"
#include "tests/training/small_tasks.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

const float k_inf = std::numeric_limits<float>::infinity();

enum class Site { data, forward, backward, loss, weights };
constexpr Site k_rng_streams[] = {Site::data, Site::forward, Site::backward, Site::loss, Site::weights};

// A parameter w pulled towards x. `poison` is what goes wrong when the input `bad` of a batch is 1.
class Poisoned : public Task {
 public:
  Site rng_stream = Site::data;
  float value = std::nanf("");
  std::int64_t from = 0, to = 0;  // batches [from, to) are bad
  bool once = false;              // only the first time that they come
  mutable std::int64_t given = 0;

  TaskGraph build(Scope& scope, const Batch& like) const override {
    Graph& g = scope.graph();
    const Value x = g.input("x", like.inputs.at("x").type()), bad = g.input("bad", {DType::f32, {}});
    const Value w = scope.parameter("w", x.shape(), Initializer::constant(0.5));
    TaskGraph t;
    t.loss = sum(square(w - x));
    if (rng_stream == Site::forward) t.loss = t.loss + sum(log(w * (1 - bad))) * 0.01;        // log 0
    if (rng_stream == Site::backward) t.loss = t.loss + sum(sqrt(square(w) * (1 - bad))) * 0.01;  // sqrt' at 0
    if (rng_stream == Site::loss) t.loss = t.loss / (1 - bad);
    const Type type{DType::f32, {}};
    const Value seen = g.input("state.seen", type);
    t.states.push_back({"seen", type, seen, seen + sum(x)});
    return t;
  }
  std::int64_t n_batches(Split split) const override { return split == Split::train ? 8 : 2; }
  Batch batch(Split split, std::uint64_t, std::int64_t epoch, std::int64_t index) const override {
    const std::int64_t at = epoch * 8 + index;
    const bool hit = split == Split::train && at >= from && at < to && !(once && given > 0);
    if (hit && at + 1 == to) ++given;
    const bool in_data = rng_stream == Site::data || rng_stream == Site::weights;
    Batch b;
    b.inputs.emplace("x",
                     Tensor::from<float>({2, 2}, {1, 2, hit && in_data ? value : 3, static_cast<float>(index) / 8}));
    b.inputs.emplace("bad", Tensor::scalar(DType::f32, hit ? 1 : 0));
    return b;
  }
};

TrainerOptions options(OnBad on_bad, std::int64_t updates) {
  TrainerOptions o;
  o.optimizer = {.name = "adam", .lr = 0.1};
  o.max_updates = updates;
  o.validate_every = 4;
  o.checkpoint_every = 2;
  o.log_every = 1;
  o.on_bad = on_bad;
  o.warn = [](const std::string&) {};
  return o;
}

bool all_finite(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (is_float(tensor.dtype()) && !tensor.all_finite()) return false;
  return true;
}

std::string said(const std::shared_ptr<const Task>& task, TrainerOptions o) {
  const auto backend = make_backend("reference");
  std::string text;
  o.warn = [&](const std::string& line) { text += line + "\n"; };
  try {
    Trainer(task, *backend, o).fit();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::numeric);
    text += e.what();
  }
  return text;
}

// A layer whose state grows fourfold in every step, from step 2 on in row 1.
class Growing : public Task {
 public:
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    RecurrentModelOptions o{.cell = "growing", .hidden = 1};
    o.cells = {{.name = "growing", .states = {"h"}, .step = "h' = 4 * h + x"}};
    TaskGraph t;
    t.loss = mean(recurrent_model(scope, x, o, {}, {}).y) * scope.parameter("s", {}, Initializer::constant(1));
    return t;
  }
  std::int64_t n_batches(Split) const override { return 4; }
  Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t) const override {
    Tensor x(DType::f32, {6, 3, 1});  // T B I
    x.set(2 * 3 + 1, 5e37);           // 2e38 in step 3
    Batch b;
    b.inputs.emplace("x", std::move(x));
    return b;
  }
};

}  // namespace

TEST_CASE("the first value that is not finite is named with its place") {
  struct Row {
    Site rng_stream;
    const char* says;
  };
  const Row rows[] = {{Site::data, "first 'x' is NaN at [1,0] of f32[2,2]"},
                      {Site::forward, "first in the forward pass log of w is infinite at [0,0] of f32[2,2]"},
                      {Site::backward, "first in the backward pass "},
                      {Site::loss, "first in the forward pass div"}};
  for (const Row& row : rows) {
    const auto task = std::make_shared<Poisoned>();
    task->rng_stream = row.rng_stream;
    task->from = 3;
    task->to = 4;
    const std::string text = said(task, options(OnBad::skip, 6));
    CAPTURE(text);
    CHECK(text.find("skipped 1 update with a non-finite loss or gradient, the last one update 4") != std::string::npos);
    CHECK(text.find(row.says) != std::string::npos);
  }
}

TEST_CASE("in f16 an input beyond its range is named, and the way out is to scale it or bf16") {
  TrainerOptions o = options(OnBad::stop, 8);
  o.precision = Precision::f16;
  o.loss_scale.initial = 1;
  // A loss in f32 of this input is finite; a product in f16 is not.
  class Product : public Poisoned {
   public:
    TaskGraph build(Scope& scope, const Batch& like) const override {
      TaskGraph t = Poisoned::build(scope, like);
      const Value x = scope.graph().find_input("x"), w = scope.parameter("m", {2, 2}, Initializer::normal(1));
      t.loss = t.loss * 1e-9 + sum(matmul(x, w)) * 1e-9;
      return t;
    }
  };
  const auto product = std::make_shared<Product>();
  product->value = 7e4F;
  product->to = 100;
  const std::string text = said(product, o);
  CHECK(text.find("input 'x' has 70000, beyond 65504, the largest number of f16") != std::string::npos);
  CHECK(text.find("data.normalize = true") != std::string::npos);
  CHECK(text.find("train.precision = bf16") != std::string::npos);
  CHECK(text.find("divide lr") == std::string::npos);
}

TEST_CASE("a parameter that is not finite is named") {
  const auto backend = make_backend("reference");
  Trainer trainer(std::make_shared<Poisoned>(), *backend, options(OnBad::stop, 5));
  TensorMap p = trainer.parameters();
  p.at("w").set(3, k_inf);
  trainer.set_parameters(p);
  CHECK_THROWS_WITH_AS(trainer.fit(), doctest::Contains("first 'w' is infinite at [1,1]"), Error);
}

TEST_CASE("in a recurrent layer the time step and the row are named") {
  const std::string text = said(std::make_shared<Growing>(), options(OnBad::stop, 5));
  CAPTURE(text);
  CHECK(text.find("scan of x is infinite at [4,1,0] of f32[6,3,1]: time step 4, row 1") != std::string::npos);
}

TEST_CASE("a policy of stop ends the run at the first bad update") {
  const auto task = std::make_shared<Poisoned>();
  task->from = 3;
  task->to = 4;
  const auto backend = make_backend("reference");
  TrainerOptions o = options(OnBad::stop, 10);
  o.log_every = 0;
  Trainer trainer(task, *backend, o);
  CHECK_THROWS_WITH_AS(trainer.fit(), doctest::Contains("1 update in a row, up to update 4"), Error);
}

TEST_CASE("a rollback goes back to the last checkpoint with half the learning rate, so often and no more") {
  const auto backend = make_backend("reference");
  const auto passing = std::make_shared<Poisoned>();
  passing->from = 3;
  passing->to = 6;
  passing->once = true;
  std::vector<std::pair<std::int64_t, double>> seen;
  TrainerOptions o = options(OnBad::rollback, 10);
  const TrainResult r = Trainer(passing, *backend, o).fit([&](const Progress& p) {
    if (!p.validation_loss) seen.emplace_back(p.update, p.lr);
  });
  CHECK(r.updates == 10);
  CHECK(r.rollbacks == 1);
  CHECK(r.skipped_updates == 1);  // update 4, before the checkpoint; the others never happened
  REQUIRE(seen.size() == 5 + 6);
  CHECK(seen[4] == std::pair<std::int64_t, double>{5, 0.1});
  CHECK(seen[5] == std::pair<std::int64_t, double>{5, 0.05});  // back at 4

  const auto lasting = std::make_shared<Poisoned>();
  lasting->from = 3;
  lasting->to = 6;
  o.max_rollbacks = 2;
  MemoryVfs vfs;
  o.vfs = &vfs;
  o.folder = "run";
  CHECK_THROWS_WITH_AS(Trainer(lasting, *backend, o).fit(), doctest::Contains("3 updates in a row"), Error);
  const Bytes metrics = vfs.read("run/metrics.jsonl", 1 << 20);
  const std::string text(reinterpret_cast<const char*>(metrics.data()), metrics.size());
  CHECK(text.find("{\"update\":6,\"rollback_to\":4,\"rollback\":2}") != std::string::npos);
}

TEST_CASE("values that are not finite, anywhere and at any update, follow the policy and leave nothing behind") {
  const auto backend = make_backend("reference");
  std::mt19937 random(20261121);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const float values[] = {std::nanf(""), k_inf, -k_inf, 3e38F};
  int outcomes[3] = {0, 0, 0};  // went on, rolled back, stopped
  const auto rounds = static_cast<int>(testing::setting("UNROLL_INJECTIONS", 2000));
  for (int round = 0; round < rounds; ++round) {
    const auto task = std::make_shared<Poisoned>();
    task->rng_stream = k_rng_streams[below(5)];
    task->value = values[below(4)];
    const bool in_weights = task->rng_stream == Site::weights;
    const int length = in_weights ? 0 : 1 + below(4);
    task->from = 1 + below(11);  // the trainer looks at batch 0 before it starts
    task->to = task->from + length;
    task->once = below(2) == 1;
    const auto on_bad = static_cast<OnBad>(below(3));
    TrainerOptions o = options(on_bad, 12);
    o.log_every = below(3);
    o.accumulate = 1;
    o.max_rollbacks = 2;
    MemoryVfs vfs;
    o.vfs = &vfs;
    o.folder = "run";
    Trainer trainer(task, *backend, o);
    if (in_weights) {
      TensorMap p = trainer.parameters();
      p.at("w").set(below(4), static_cast<double>(task->value == 3e38F ? k_inf : task->value));
      trainer.set_parameters(p);
    }
    CAPTURE(round);
    const bool has_bad = in_weights || task->from < 12;
    const std::int64_t bad_updates = in_weights ? 12 : std::min<std::int64_t>(12, task->to) - task->from;
    try {
      const TrainResult r = trainer.fit();
      REQUIRE(all_finite(trainer.parameters()));
      REQUIRE_FALSE(in_weights);
      if (has_bad) REQUIRE(on_bad != OnBad::stop);
      if (on_bad == OnBad::skip) {
        REQUIRE(bad_updates < 3);
        REQUIRE(r.skipped_updates == bad_updates);
      }
      ++outcomes[r.rollbacks > 0 ? 1 : 0];
    } catch (const Error& e) {
      REQUIRE(e.kind() == ErrorKind::numeric);
      REQUIRE(has_bad);
      if (on_bad != OnBad::stop) REQUIRE(bad_updates >= 3);
      if (!in_weights) REQUIRE(all_finite(trainer.parameters()));
      ++outcomes[2];
    }
    for (const char* name : {"run/last.safetensors", "run/best.safetensors"})
      if (vfs.exists(name)) REQUIRE(all_finite(load_safetensors(name, vfs).tensors));
  }
  for (const int n : outcomes) CHECK(n > rounds / 100);
}
