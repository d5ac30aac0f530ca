// SPDX-License-Identifier: Apache-2.0
// Datasets of tensors in memory: splits, order, batches, padding, and a network as one function.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "unroll/ir/ops.h"
#include "unroll/model/network.h"
#include "unroll/support/error.h"

using namespace unroll;

namespace {

// Example i is the number i.
Tensor counted(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::from<float>({n, 1}, values);
}

std::vector<std::int64_t> epoch_of(const TensorDataset& data, Split split, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < data.n_batches(split); ++i)
    for (const std::int64_t index : data.indices(split, seed, epoch, i)) all.push_back(index);
  return all;
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) values.push_back(tensor.at(i));
  return values;
}

// A sequence of `steps` steps that count from `first`.
Tensor sequence(std::int64_t steps, float first) {
  std::vector<float> values(static_cast<std::size_t>(steps));
  std::iota(values.begin(), values.end(), first);
  return Tensor::from<float>({steps, 1}, values);
}

}  // namespace

TEST_CASE("every example is in exactly one split") {
  const TensorDataset data({{"x", counted(103)}}, {.batch = 10, .validation = 0.1, .test = 0.2});
  CHECK(data.examples(Split::train) == 73);
  CHECK(data.examples(Split::validation) == 10);
  CHECK(data.examples(Split::test) == 20);
  std::multiset<std::int64_t> all;
  for (const Split split : {Split::train, Split::validation, Split::test})
    for (const std::int64_t i : epoch_of(data, split, 0, 0)) all.insert(i);
  CHECK(all.size() == 103);
  CHECK(std::set<std::int64_t>(all.begin(), all.end()).size() == 103);
}

TEST_CASE("splits in order keep the order of a time series") {
  const TensorDataset data({{"x", counted(10)}},
                           {.batch = 4, .shuffle = false, .validation = 0.2, .test = 0.1, .random_splits = false});
  CHECK(epoch_of(data, Split::train, 5, 1) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK(epoch_of(data, Split::validation, 5, 1) == std::vector<std::int64_t>{7, 8});
  CHECK(epoch_of(data, Split::test, 5, 1) == std::vector<std::int64_t>{9});
}

TEST_CASE("training order is a function of seed and epoch, and every epoch has every example") {
  const TensorDataset data({{"x", counted(50)}}, {.batch = 8, .validation = 0}), copy = data;
  const auto first = epoch_of(data, Split::train, 1, 0), second = epoch_of(data, Split::train, 1, 1);
  CHECK(first != second);
  CHECK(epoch_of(copy, Split::train, 1, 0) == first);  // also after another epoch was asked for
  CHECK(epoch_of(data, Split::train, 2, 0) != first);
  CHECK(std::is_permutation(first.begin(), first.end(), second.begin(), second.end()));
}

TEST_CASE("a smaller last batch of training is kept, or left out on request") {
  CHECK(TensorDataset({{"x", counted(50)}}, {.batch = 8, .validation = 0}).n_batches(Split::train) == 7);
  const TensorDataset data({{"x", counted(50)}}, {.batch = 8, .drop_last = true, .validation = 0});
  CHECK(data.n_batches(Split::train) == 6);
  CHECK(data.batch(Split::train, 0, 0, 5).inputs.at("x").shape() == Shape{8, 1});
}

TEST_CASE("a batch gathers examples along the axis of each field") {
  // x [T=2, N=3, I=2]: the value at t, n, i is 100 t + 10 n + i.
  const Tensor x = Tensor::from<float>({2, 3, 2}, {0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121});
  const Tensor label = Tensor::from<std::int32_t>({3}, {7, 8, 9});
  const TensorDataset data({{"x", x}, {"label", label}}, {.validation = 0, .axes = {{"x", 1}}});
  const std::vector<std::int64_t> chosen{2, 0};
  const Batch batch = data.batch(Split::train, chosen);
  CHECK(batch.inputs.at("x").shape() == Shape{2, 2, 2});
  CHECK(values_of(batch.inputs.at("x")) == std::vector<double>{20, 21, 0, 1, 120, 121, 100, 101});
  CHECK(values_of(batch.inputs.at("label")) == std::vector<double>{9, 7});
}

TEST_CASE("sequences of different lengths are padded to [T,B,I] with their lengths") {
  const std::vector<Tensor> x{sequence(3, 1), sequence(1, 11), sequence(5, 21)};
  const std::vector<std::int64_t> chosen{0, 1};
  const Batch longest = TensorDataset({{"x", x}}, {.validation = 0}).batch(Split::train, chosen);
  CHECK(longest.inputs.at("x").shape() == Shape{5, 2, 1});  // as long as the longest of all
  CHECK(values_of(longest.inputs.at("x")) == std::vector<double>{1, 11, 2, 0, 3, 0, 0, 0, 0, 0});
  CHECK(values_of(longest.inputs.at("x.lengths")) == std::vector<double>{3, 1});

  const Batch rounded = TensorDataset({{"x", x}}, {.validation = 0, .pad_to_multiple = 2}).batch(Split::train, chosen);
  CHECK(rounded.inputs.at("x").shape() == Shape{4, 2, 1});
}

TEST_CASE("splits of one's own are used as they are") {
  const TensorDataset data({{"x", counted(5)}}, {{"x", counted(2)}}, {}, {.batch = 2, .shuffle = false});
  CHECK(data.n_batches(Split::train) == 3);
  CHECK(data.n_batches(Split::validation) == 1);
  CHECK(data.n_batches(Split::test) == 0);
}

TEST_CASE("a wrong dataset is refused with the field's name") {
  const auto refusal = [](Fields fields, DatasetOptions options) {
    const Result<TensorDataset> made = TensorDataset::try_create(std::move(fields), std::move(options));
    REQUIRE_FALSE(made.ok());
    return std::string(made.error().what());
  };
  CHECK(refusal({{"x", counted(3)}, {"y", counted(4)}}, {}) ==
        "[TensorDataset] field 'y' has 4 examples; field 'x' has 3");
  CHECK(refusal({{"x", counted(3)}}, {.axes = {{"x", 2}}}).find("field 'x' [3,1] has no axis 2") != std::string::npos);
  CHECK(refusal({{"x", counted(3)}}, {.validation = 0, .axes = {{"z", 1}}}).find("axes names 'z'") !=
        std::string::npos);
  CHECK(refusal({{"x", counted(5)}}, {}).find("the validation split of 5 examples would be empty") !=
        std::string::npos);
  CHECK(refusal({{"x", counted(20)}}, {.validation = 0.6, .test = 0.6}).find("the training split") !=
        std::string::npos);
  CHECK(refusal({{"x", counted(20)}}, {.batch = 0}).find("batch must be at least 1") != std::string::npos);
  CHECK(refusal({{"x", std::vector<Tensor>{sequence(2, 0), Tensor(DType::f32, {2, 3})}}}, {})
            .find("sequence 1 of field 'x' is f32[2,3]; sequence 0 is f32[2,1]") != std::string::npos);
  CHECK(refusal({}, {}).find("the training split") != std::string::npos);
}

TEST_CASE("a network of one function learns the last value of padded sequences") {
  std::vector<Tensor> x;
  std::vector<float> last;
  for (int i = 0; i < 60; ++i) {
    Tensor s = sequence(1 + i % 4, static_cast<float>(i % 5));
    for (float& v : s.values<float>()) v /= 8;
    last.push_back(static_cast<float>(s.at(s.elements() - 1)));
    x.push_back(std::move(s));
  }
  const Network network = [](Scope& scope, const Inputs& in) {
    const CellLayerResult r =
        recurrent_model(scope.child("gru"), in["x"], {.cell = "gru", .hidden = 8}, {}, in["x.lengths"]);
    TaskGraph t;
    t.outputs = {{"last", linear_layer(scope.child("head"), row(r.states[0], 0), 1)}};
    if (in.has("target")) t.loss = mean(square(t.outputs[0].second - in["target"]));
    return t;
  };
  const auto backend = make_backend("reference");
  const TensorDataset data({{"x", x}, {"target", Tensor::from<float>({60, 1}, last)}}, {.batch = 12, .test = 0.2});
  TrainerOptions o;
  o.optimizer.lr = 0.03;
  o.epochs = 30;
  o.validate_every = 0;
  Trainer trainer(make_task(data, network, {{"made by", "a test"}}), *backend, o);
  const double before = trainer.evaluate(Split::test).loss;
  trainer.fit();
  CHECK(trainer.evaluate(Split::test).loss < 0.2 * before);

  // The same function runs without targets, on the trainer's parameters and as a model of its own.
  Batch questions = data.batch(Split::test, 0, 0, 0);
  questions.inputs.erase("target");
  const TensorMap predicted = trainer.predict(questions);
  Model model(*backend, network, trainer.parameters());
  CHECK(values_of(model.run(questions.inputs).at("last")) == values_of(predicted.at("last")));
}

TEST_CASE("a network that asks for an unknown input hears of the known ones") {
  const Network network = [](Scope&, const Inputs& in) {
    TaskGraph t;
    t.loss = sum(in["lable"]);
    return t;
  };
  const auto backend = make_backend("reference");
  const auto made = Trainer::try_create(make_task(TensorDataset({{"label", counted(20)}}), network), *backend, {});
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().kind() == ErrorKind::usage);
  CHECK(std::string(made.error().what()).find("there is no input 'lable'. Did you mean 'label'?") != std::string::npos);
}

TEST_CASE("a sequence mask is true where a step exists") {
  const auto backend = make_backend("reference");
  Graph graph;
  graph.output("mask", sequence_mask(graph.input("lengths", {DType::i32, {2}}), 3));
  const TensorMap out = evaluate(graph, *backend, {{"lengths", Tensor::from<std::int32_t>({2}, {3, 1})}});
  CHECK(values_of(out.at("mask")) == std::vector<double>{1, 1, 1, 0, 1, 0});
}
