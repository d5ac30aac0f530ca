// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation: an update of many small batches moves the parameters as one large batch of the same rows does.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/training/small_tasks.h"
#include "unroll/ir/ops.h"
#include "unroll/model/network.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr std::int64_t k_rows = 4;

// Four rows of training data, in batches of so many.
template <class Options>
Options with_rows(std::int64_t batch, double activation, double temporal) {
  Options o;
  o.model = {.cell = "gru", .hidden = 5, .activation_penalty = activation, .temporal_penalty = temporal};
  o.batch = batch;
  o.validation = 0;
  o.test = 0;
  return o;
}
template <class Options>
Options with_words(std::int64_t batch, double activation, double temporal) {
  auto o = with_rows<Options>(batch, activation, temporal);
  o.embedding = 4;
  o.label_smoothing = 0.1;
  return o;
}

struct Penalties {
  double activation, temporal;
};
using Make = std::shared_ptr<const Task> (*)(std::int64_t batch, Penalties p);
struct Row {
  const char* name;
  Make make;
};

const char* const k_pairs = "a\tb b a b\na b c a b\tb\nb c\tc c\na\ta b c a b c\n";

std::shared_ptr<const Task> translate(std::int64_t batch, Penalties p, const char* attention, bool input_feeding) {
  auto o = with_words<TranslateOptions>(batch, p.activation, p.temporal);
  o.attention = attention;
  o.input_feeding = input_feeding;
  return make_translate(o, k_pairs, "pairs");
}
std::shared_ptr<const Task> label(std::int64_t batch, Penalties p, const char* output) {
  auto o = with_words<LabelOptions>(batch, p.activation, p.temporal);
  o.output = output;
  if (o.output == "crf") o.label_smoothing = 0;
  return make_label(o, "a\tx\n\na\tx\nb\ty\na\ty\nb\tx\nc\ty\n\nb\tx\nc\ty\n\nc\tx\nc\tx\na\ty\n", "sentences");
}

const Row k_tasks[] = {
    {"language-model", [](std::int64_t batch, Penalties p) -> std::shared_ptr<const Task> {
       auto o = with_words<LanguageModelOptions>(batch, p.activation, p.temporal);
       o.steps = 6;
       o.shards = k_rows / batch;
       return make_language_model(o, small_text(3), "text");
     }},
    {"forecast", [](std::int64_t batch, Penalties p) -> std::shared_ptr<const Task> {
       auto o = with_rows<ForecastOptions>(batch, p.activation, p.temporal);
       o.window = 3;
       o.horizon = 2;
       o.period = 1;
       o.missing = "interpolate";
       return make_forecast(o, "1\n3\n2\n4\nNA\n6\n5\n9\n7\n8\n", "series");  // a target is missing
     }},
    {"classify", [](std::int64_t batch, Penalties p) -> std::shared_ptr<const Task> {
       auto o = with_rows<ClassifyOptions>(batch, p.activation, p.temporal);
       o.label_smoothing = 0.1;
       return make_classify(o, small_rows(k_rows), "rows");
     }},
    {"regress", [](std::int64_t batch, Penalties p) -> std::shared_ptr<const Task> {
       auto o = with_rows<RegressOptions>(batch, p.activation, p.temporal);
       o.targets = {"1", "2"};
       return make_regress(o, "1,7,3,4\n2,5,3,9\n8,1,2,0\n4,4,6,1\n", "rows");
     }},
    {"document", [](std::int64_t batch, Penalties p) -> std::shared_ptr<const Task> {
       const auto o = with_words<DocumentOptions>(batch, p.activation, p.temporal);
       return make_document(o, "x\ta b. c.\ny\tb c a b c.\nx\ta. b. c d e f.\ny\tc\n", "documents");
     }},
    {"label", [](std::int64_t batch, Penalties p) { return label(batch, p, "softmax"); }},
    {"label, crf", [](std::int64_t batch, Penalties p) { return label(batch, p, "crf"); }},
    {"translate, dot", [](std::int64_t batch, Penalties p) { return translate(batch, p, "dot", false); }},
    {"translate, additive", [](std::int64_t batch, Penalties p) { return translate(batch, p, "additive", false); }},
    {"translate, input feeding", [](std::int64_t batch, Penalties p) { return translate(batch, p, "additive", true); }},
    {"summarize", [](std::int64_t batch, Penalties p) -> std::shared_ptr<const Task> {
       auto o = with_words<SummarizeOptions>(batch, p.activation, p.temporal);
       o.coverage = true;
       return make_summarize(o, k_pairs, "pairs");
     }},
};

TrainerOptions one_step(std::int64_t accumulate) {
  TrainerOptions o;
  o.optimizer = {.name = "sgd", .lr = 1};
  o.clip = {.norm = 0};
  o.accumulate = accumulate;
  return o;
}

struct Moved {
  double loss, weight_moved;
  TensorMap parameters;
};
Moved moved(const std::shared_ptr<const Task>& task, Backend& backend, std::span<const Batch> batches) {
  Trainer trainer(task, backend, one_step(static_cast<std::int64_t>(batches.size())));
  const TensorMap before = trainer.parameters();
  const UpdateResult r = trainer.update(batches);
  Moved m{r.loss, 0, trainer.parameters()};
  for (const auto& [name, tensor] : m.parameters)
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      m.weight_moved = std::max(m.weight_moved, std::fabs(tensor.at(i) - before.at(name).at(i)));
  return m;
}
std::vector<Batch> batches_of(const Task& task) {
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < task.n_batches(Split::train); ++i)
    batches.push_back(task.batch(Split::train, 0, 0, i));
  return batches;
}
// Rounding of f32: of sums in another order, and of parameters of size 1.
constexpr double k_rounding = 1e-6;
double largest_difference(const TensorMap& a, const TensorMap& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a)
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      largest = std::max(largest, std::fabs(tensor.at(i) - b.at(name).at(i)) /
                                      std::max(1.0, std::fabs(b.at(name).at(i))));
  return largest;
}

}  // namespace

TEST_CASE("each task moves by many small batches as by a large one, with and without penalties") {
  const auto backend = make_backend("cpu", {.threads = 1});
  for (const Row& row : k_tasks)
    for (const Penalties p : {Penalties{0, 0}, Penalties{2, 1}}) {
      const std::string name = row.name;
      CAPTURE(name);
      CAPTURE(p.activation);
      CAPTURE(p.temporal);
      const auto large = row.make(k_rows, p);
      const std::vector<Batch> one = batches_of(*large);
      REQUIRE(one.size() >= 1);
      const Moved expected = moved(large, *backend, std::span(one).first(1));
      CHECK(expected.weight_moved > 1e-3);
      for (const std::int64_t batch : {k_rows / 2, std::int64_t{1}}) {
        CAPTURE(batch);
        const auto small = row.make(batch, p);
        const std::vector<Batch> several = batches_of(*small);
        const auto n = static_cast<std::size_t>(k_rows / batch);
        REQUIRE(several.size() >= n);
        const Moved got = moved(small, *backend, std::span(several).first(n));
        CHECK(largest_difference(got.parameters, expected.parameters) < k_rounding);
        CHECK(got.loss == doctest::Approx(expected.loss).epsilon(k_rounding));
      }
    }
}

namespace {

// Rows of 1 and of 50 steps, and a loss for each real step.
Batch steps_batch(std::vector<std::int32_t> lengths) {
  const auto B = static_cast<std::int64_t>(lengths.size());
  const std::int64_t T = *std::max_element(lengths.begin(), lengths.end());
  Tensor x(DType::f32, {T, B, 1}), target(DType::f32, {T, B, 1});
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(b)]; ++t) {
      x.set(t * B + b, std::sin(0.3 * static_cast<double>(t)));
      target.set(t * B + b, lengths[static_cast<std::size_t>(b)] == 1 ? 9.0 : 2.0);
    }
  Batch batch;
  batch.inputs.emplace("lengths", Tensor::from<std::int32_t>({B}, lengths));
  batch.inputs.emplace("x", std::move(x));
  batch.inputs.emplace("target", std::move(target));
  return batch;
}

TaskGraph with_loss(Value loss, Value weight = {}) {
  TaskGraph t;
  t.loss = loss;
  t.weight = weight;
  return t;
}
struct Loss {
  const char* name;
  TaskGraph (*of)(Scope& scope, Value error, Value mask);
};
const Loss k_losses[] = {
    {"masked mean", [](Scope&, Value error, Value mask) { return with_loss(masked_mean(error, mask)); }},
    {"scaled and negated",
     [](Scope&, Value error, Value mask) { return with_loss(-(masked_mean(error, mask) * -0.25) / 2.0); }},
    {"stated weight",
     [](Scope&, Value error, Value mask) {
       const Value n = sum(cast(mask, DType::f32));
       return with_loss(sum(error * cast(mask, DType::f32)) / n, n);
     }},
    {"two means", [](Scope&, Value error, Value mask) {
       const Value first = less(iota(error.graph(), error.shape(), 0), scalar_like(iota(error.graph(), {1}, 0), 5));
       return with_loss(masked_mean(error, mask) + masked_mean(sqrt(error + 1), logical_and(mask, first)) * 3.0);
     }},
    {"penalty on a weight", [](Scope& scope, Value error, Value mask) {
       const Value weight = scope.parameter("head.weight", {1, 3}, Initializer::zeros());
       return with_loss(masked_mean(error, mask) + sum(square(weight)) * 0.01);
     }},
};

std::shared_ptr<const Task> steps_task(const Loss& loss) {
  const Network network = [&loss](Scope& scope, const Inputs& in) {
    const Value lengths = in["lengths"], x = in["x"];
    const RecurrentModelOptions model{.cell = "gru", .hidden = 3};
    const Value y = linear_layer(scope.child("head"), recurrent_model(scope.child("rnn"), x, model, {}, lengths).y, 1);
    const Value mask = reshape(sequence_mask(lengths, x.shape()[0]), y.shape());
    return loss.of(scope, square(y - in["target"]), mask);
  };
  return make_task(steps_batch({50, 50}), network);
}

}  // namespace

TEST_CASE("a loss of one's own over real steps is averaged over the steps of all batches") {
  const auto backend = make_backend("cpu", {.threads = 1});
  for (const Loss& loss : k_losses) {
    const std::string name = loss.name;
    CAPTURE(name);
    const auto task = steps_task(loss);
    const Batch both[] = {steps_batch({1, 50, 7})}, single[] = {steps_batch({1}), steps_batch({50}), steps_batch({7})},
                pairs[] = {steps_batch({1, 50}), steps_batch({7})};
    const Moved expected = moved(task, *backend, both);
    CHECK(expected.weight_moved > 0.05);
    for (const std::span<const Batch> batches : {std::span<const Batch>(single), std::span<const Batch>(pairs)}) {
      const Moved got = moved(task, *backend, batches);
      CHECK(largest_difference(got.parameters, expected.parameters) < k_rounding);
      CHECK(got.loss == doctest::Approx(expected.loss).epsilon(k_rounding));
    }
  }
}

TEST_CASE("a batch without a real step adds nothing to an update") {
  const auto backend = make_backend("cpu", {.threads = 1});
  const auto task = steps_task(k_losses[0]);
  Batch empty = steps_batch({3});
  empty.inputs.insert_or_assign("lengths", Tensor::from<std::int32_t>({1}, {0}));
  const Batch alone[] = {steps_batch({7})}, with_empty[] = {steps_batch({7}), empty}, only_empty[] = {empty, empty};
  CHECK(largest_difference(moved(task, *backend, with_empty).parameters, moved(task, *backend, alone).parameters) <
        k_rounding);
  CHECK(moved(task, *backend, only_empty).weight_moved == 0);
}
