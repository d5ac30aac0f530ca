// SPDX-License-Identifier: Apache-2.0
// What keeps a model from learning its data by heart: masks over steps, of weights, penalties, shared weights, stacks.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/training/small_tasks.h"
#include "tests/training/task_gradients.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_regularisation {

using namespace unroll;
using namespace unroll::testing;

namespace {

Tensor key(std::int32_t update = 1) { return Tensor::from<std::int32_t>({3}, {1, 2, update}); }

struct Built {
  Graph graph;
  Scope scope;
  explicit Built(bool training = true, DType dtype = DType::f64) : scope(graph, training, dtype) {}

  // Parameters at their initial values unless `values` has them.
  TensorMap run(const TensorMap& values, std::int32_t update = 1) {
    TensorMap inputs = initialize(scope.parameters(), 3);
    for (const auto& [name, tensor] : values)
      if (graph.find_input(name)) inputs.insert_or_assign(name, tensor);
    if (graph.find_input("key")) inputs.emplace("key", key(update));
    return evaluate(graph, *make_backend("reference"), inputs);
  }
};

Tensor waves(const Type& type) {
  Tensor values(type);
  for (std::int64_t i = 0; i < values.elements(); ++i) values.set(i, std::sin(static_cast<double>(3 * i + 1)));
  return values;
}
Tensor filled_tensor(Shape shape, double value) { return Tensor::filled({DType::f64, shape}, value); }
Tensor identity(std::int64_t n) {
  Tensor t(DType::f64, {n, n});
  for (std::int64_t i = 0; i < n; ++i) t.set(i * n + i, 1);
  return t;
}

constexpr std::int64_t T = 4, B = 3, I = 5, H = 40;

// y [T,B,H] of a layer whose gates see neither x nor, unless `hh` is given, h, but `bias` [G].
Tensor output_of_biases(Op cell, RecurrentModelOptions o, std::vector<double> bias, const Tensor* hh = nullptr) {
  Built b;
  o.hidden = H;
  o.cell = std::string(op_info(cell).name);
  const Value x = b.graph.input("x", {DType::f64, {T, B, I}});
  b.graph.output("y", recurrent_model(b.scope, x, o).y);
  const auto G = static_cast<std::int64_t>(bias.size());
  Tensor biases(DType::f64, {G * H});
  for (std::int64_t i = 0; i < G * H; ++i) biases.set(i, bias[static_cast<std::size_t>(i / H)]);
  const Tensor zeros = filled_tensor({G * H, H}, 0);
  return b.run({{"x", waves({DType::f64, {T, B, I}})},
                {"weight_ih_l0", filled_tensor({G * H, I}, 0)},
                {"weight_hh_l0", hh ? *hh : zeros},
                {"bias_ih_l0", biases},
                {"bias_hh_l0", filled_tensor({G * H}, 0)}})
      .at("y");
}

// Both values occur, nothing else does.
void check_either(const std::vector<double>& values, double a, double b) {
  std::size_t first = 0;
  for (const double v : values) {
    const bool is_a = std::fabs(v - a) < 1e-9, is_b = std::fabs(v - b) < 1e-9;
    CAPTURE(v);
    CHECK((is_a || is_b));
    first += is_a;
  }
  CHECK(first > values.size() / 4);
  CHECK(first < values.size() - values.size() / 4);
}
std::vector<double> step_of(const Tensor& y, std::int64_t t, std::int64_t row = -1) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < B * H; ++i)
    if (row < 0 || i / H == row) values.push_back(y.at(t * B * H + i));
  return values;
}

}  // namespace

TEST_CASE("a mask of a sequence is one for all its steps and another for every row and update") {
  Built b;
  const Value x = b.graph.input("x", {DType::f64, {T, B, H}});
  b.graph.output("sequence", dropout_layer(b.scope, x, 0.5, DropoutMask::sequence));
  b.graph.output("step", dropout_layer(b.scope, x, 0.5));
  const TensorMap ones{{"x", filled_tensor({T, B, H}, 1)}};
  const TensorMap y = b.run(ones), later = b.run(ones, 2);
  check_either(step_of(y.at("sequence"), 0), 0, 2);
  for (std::int64_t t = 1; t < T; ++t) {
    CHECK(step_of(y.at("sequence"), t) == step_of(y.at("sequence"), 0));
    CHECK(step_of(y.at("step"), t) != step_of(y.at("step"), 0));
  }
  CHECK(step_of(y.at("sequence"), 0, 0) != step_of(y.at("sequence"), 0, 1));
  CHECK(step_of(later.at("sequence"), 0) != step_of(y.at("sequence"), 0));
}

TEST_CASE("step by step recurrent dropout leaves out what a step of gru or lstm adds, anew in every step") {
  RecurrentModelOptions o;
  o.recurrent_dropout = 0.5;
  // z = 0: h' = d(n).
  const Tensor gru = output_of_biases(Op::gru, o, {0, -100, 1});
  for (std::int64_t t = 0; t < T; ++t) check_either(step_of(gru, t), 0, 2 * std::tanh(1.0));
  CHECK(step_of(gru, 0) != step_of(gru, 1));
  // i, f and o are 1: c grows by d(g), and h = tanh(c).
  const Tensor lstm = output_of_biases(Op::lstm, o, {100, 100, 0.2, 100});
  std::vector<double> before(static_cast<std::size_t>(B * H), 0);
  for (std::int64_t t = 0; t < T; ++t) {
    std::vector<double> added = step_of(lstm, t);
    for (std::size_t i = 0; i < added.size(); ++i) {
      const double c = std::atanh(added[i]);
      added[i] = c - before[i];
      before[i] = c;
    }
    check_either(added, 0, 2 * std::tanh(0.2));
  }
}

TEST_CASE("variational recurrent dropout leaves out the same part of the old state in every step") {
  RecurrentModelOptions o;
  o.recurrent_dropout = 0.5;
  o.variational = true;
  o.nonlinearity = Nonlinearity::relu;
  const Tensor hh = identity(H);
  const Tensor y = output_of_biases(Op::rnn, o, {1}, &hh);  // h' = 1 + m h with m = 0 or 2
  const std::vector<double> last = step_of(y, T - 1), second = step_of(y, 1);
  check_either(second, 1, 3);
  for (std::size_t i = 0; i < last.size(); ++i) CHECK(last[i] == (second[i] == 1 ? 1 : 15));
  CHECK(step_of(y, 1, 0) != step_of(y, 1, 1));
}

TEST_CASE("weight drop leaves out elements of weight_hh, the same ones in every step and row of an update") {
  for (const bool as_cell : {false, true}) {
    CAPTURE(as_cell);
    RecurrentModelOptions o;
    o.weight_drop = 0.5;
    o.nonlinearity = Nonlinearity::relu;
    if (as_cell) o.recurrent_dropout = 1e-12, o.variational = true;
    const Tensor hh = identity(H);
    const Tensor y = output_of_biases(Op::rnn, o, {1}, &hh);
    const std::vector<double> second = step_of(y, 1), last = step_of(y, T - 1);
    check_either(second, 1, 3);
    for (std::size_t i = 0; i < last.size(); ++i) {
      CHECK(last[i] == doctest::Approx(std::lround(second[i]) == 1 ? 1 : 15).epsilon(1e-9));
      CHECK(second[i] == doctest::Approx(second[i % H]).epsilon(1e-9));
    }
  }
}

TEST_CASE("a rate that drops nothing gives what the composite gives, with every option of a layer") {
  struct Row {
    const char* what;
    Op cell;
    std::function<void(RecurrentModelOptions&)> set;
  };
  const Row rows[] = {
      {"rnn", Op::rnn, [](auto& o) { o.nonlinearity = Nonlinearity::relu; }},
      {"gru", Op::gru, [](auto& o) { o.bias = false; }},
      {"gru, reset before", Op::gru, [](auto& o) { o.reset_after = false; }},
      {"lstm", Op::lstm, [](auto& o) { o.bias = false; }},
      {"lstm with peepholes and projection", Op::lstm, [](auto& o) { o.peephole = true, o.projection = 3; }},
  };
  for (const Row& row : rows)
    for (const DropoutMask mask : {DropoutMask::step, DropoutMask::sequence}) {
      if (row.cell == Op::rnn && mask == DropoutMask::step) continue;
      CAPTURE(row.what);
      TensorMap results[2];
      for (const bool dropped : {false, true}) {
        Built b;
        RecurrentModelOptions o;
        o.hidden = 6;
        o.layers = 2;
        o.bidirectional = true;
        o.init = RecurrentInit::orthogonal;
        o.forget_bias = row.cell == Op::lstm ? 1 : 0;
        o.variational = mask == DropoutMask::sequence;
        o.cell = std::string(op_info(row.cell).name);
        row.set(o);
        if (dropped) o.recurrent_dropout = 1e-15;  // below the smallest draw that is not 0
        const Value x = b.graph.input("x", {DType::f64, {T, B, I}});
        const Value lengths = b.graph.input("lengths", {DType::i32, {B}});
        const CellLayerResult r = recurrent_model(b.scope, x, o, {}, lengths);
        b.graph.output("y", r.y);
        b.graph.output("hn", r.states[0]);
        if (r.states.size() > 1) b.graph.output("cn", r.states[1]);
        results[dropped] = b.run({{"x", waves({DType::f64, {T, B, I}})},
                                  {"lengths", Tensor::from<std::int32_t>({3}, {4, 2, 3})}});
      }
      // Sums in another order: about T H eps = 4 * 12 * 1e-16 of values near 1, with room.
      for (const auto& output : results[0])
        CHECK(largest_difference(output.second, results[1].at(output.first)) < 1e-12);
    }
}

TEST_CASE("penalties are the mean squares of activations and of their changes, over the steps that exist") {
  for (const bool with_lengths : {false, true}) {
    Built b;
    const Value y = b.graph.input("y", {DType::f64, {T, B, 2}});
    const Value lengths = with_lengths ? b.graph.input("lengths", {DType::i32, {B}}) : Value();
    activation_penalties(b.scope, y, 2, 3, lengths);
    REQUIRE(b.scope.penalties().size() == 2);
    b.graph.output("activation", b.scope.penalties()[0]);
    b.graph.output("temporal", b.scope.penalties()[1]);
    const std::int32_t steps[] = {with_lengths ? 4 : 4, with_lengths ? 1 : 4, with_lengths ? 3 : 4};
    Tensor values = waves({DType::f64, {T, B, 2}});
    double squares = 0, n = 0, changes = 0, pairs = 0;
    for (std::int64_t i = 0; i < values.elements(); ++i) {
      const std::int64_t t = i / (B * 2), row = i / 2 % B;
      if (t >= steps[row]) values.set(i, 0);
      if (t >= steps[row]) continue;
      squares += values.at(i) * values.at(i);
      ++n;
      if (t == 0) continue;
      changes += std::pow(values.at(i) - values.at(i - B * 2), 2);
      ++pairs;
    }
    const TensorMap got = b.run({{"y", values}, {"lengths", Tensor::from<std::int32_t>({3}, {4, 1, 3})}});
    CHECK(got.at("activation").at(0) == doctest::Approx(2 * squares / n).epsilon(1e-12));
    CHECK(got.at("temporal").at(0) == doctest::Approx(3 * changes / pairs).epsilon(1e-12));
  }
  Built still(/*training=*/false);
  activation_penalties(still.scope, still.graph.input("y", {DType::f64, {T, B, 2}}), 2, 3);
  CHECK(still.scope.penalties().empty());
}

namespace {

// Nothing but a penalty.
class Penalized : public TinyTask {
 public:
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    const Value w = scope.parameter("w", x.shape(), Initializer::constant(3));
    scope.add_penalty(sum(square(w)));
    TaskGraph t;
    t.loss = sum(x) * 0.0 + sum(w) * 0.0;
    return t;
  }
};

}  // namespace

TEST_CASE("training adds the penalties to the loss, validation does not") {
  const auto backend = make_backend("cpu");
  Trainer trainer(std::make_shared<Penalized>(), *backend, small_training(60));
  double first = -1;
  trainer.fit([&](const Progress& p) { first = first < 0 ? p.loss : first; });
  CHECK(first > 10);  // near 2 * 3^2
  CHECK(trainer.evaluate(Split::test).loss == 0);
  CHECK(trainer.parameters().at("w").at(0) < 2.5);
}

TEST_CASE("residual and highway stacks give on what their equations say, and nothing behind the end of a row") {
  for (const bool highway : {false, true}) {
    CAPTURE(highway);
    Built b, by_hand;
    RecurrentModelOptions o;
    o.hidden = I;  // as wide as x: the first layer joins too
    o.layers = 2;
    o.skip = highway ? SkipConnection::highway : SkipConnection::residual;
    const Type type{DType::f64, {T, B, I}};
    const Value lengths = b.graph.input("lengths", {DType::i32, {B}});
    const CellLayerResult r = recurrent_model(b.scope, b.graph.input("x", type), o, {}, lengths);
    b.graph.output("y", r.y);
    b.graph.output("hn", r.states[0]);
    TensorMap values = initialize(b.scope.parameters(), 3);
    values.emplace("x", waves(type));
    values.emplace("lengths", Tensor::from<std::int32_t>({3}, {4, 2, 3}));
    const TensorMap got = b.run(values);

    const Value n = by_hand.graph.input("lengths", {DType::i32, {B}});
    const Value live = less(iota(by_hand.graph, {T, B, 1}, 0), reshape(n, {1, B, 1}));
    Value x = by_hand.graph.input("x", type);
    TensorMap hand_values = values;
    for (const std::string layer : {"0", "1"}) {
      RecurrentModelOptions one;
      one.hidden = I;
      const Value y = recurrent_model(by_hand.scope.child(layer), x, one, {}, n).y;
      for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
        hand_values.emplace(layer + "." + name + "_l0", values.at(name + ("_l" + layer)));
      x = select(live, x, scalar_like(x, 0));
      if (highway) {
        Scope scope = by_hand.scope.child(layer);
        hand_values.emplace(layer + ".w", values.at("highway.weight_l" + layer));
        const Value g = sigmoid(linear(x, scope.parameter("w", {I, I}, Initializer::zeros())) - 1.0);
        x = y * g + x * (1 - g);
      } else {
        x = x + y;
      }
    }
    by_hand.graph.output("y", x);
    const Tensor expected = by_hand.run(hand_values).at("y");
    CHECK(largest_difference(got.at("y"), expected) < 1e-12);  // the same operations, perhaps in another order
    CHECK(got.at("y").at((3 * B + 1) * I) == 0);
    CHECK(got.at("hn").shape() == Shape{2, B, I});
  }
  Built b;
  RecurrentModelOptions o;
  o.skip = SkipConnection::residual;
  const Value x = b.graph.input("x", {DType::f64, {T, B, I}});
  CHECK_THROWS_WITH_AS(recurrent_model(b.scope, x, o), doctest::Contains("input and output have the same width"),
                       Error);
}

TEST_CASE("a stack of every kind goes step by step as it goes in one piece, and so does a ready cell") {
  for (const char* cell : {"gru", "mgu"}) {
    RecurrentModelOptions o;
    o.cell = cell;
    o.hidden = I;
    o.layers = 3;
    o.skip = SkipConnection::highway;
    Built b(/*training=*/false, DType::f32);
    const Type type{DType::f32, {T, 1, I}};
    b.graph.output("y", recurrent_model(b.scope, b.graph.input("x", type), o).y);
    const TensorMap parameters = initialize(b.scope.parameters(), 3);
    const Tensor x = waves(type);
    const Tensor whole = b.run({{"x", x}}).at("y");
    const auto backend = make_backend("cpu");
    Stream stream(*backend, recurrent_stream(o, I), parameters);
    std::vector<float> y(I);
    for (std::int64_t t = 0; t < T; ++t) {
      REQUIRE(stream.step(x.values<float>().subspan(static_cast<std::size_t>(t * I), I), y));
      // f32 and three layers of order 1: a few roundings each.
      for (std::int64_t i = 0; i < I; ++i)
        CHECK(std::fabs(static_cast<double>(y[static_cast<std::size_t>(i)]) - whole.at(t * I + i)) < 1e-5);
    }
  }
}

namespace {

LanguageModelOptions everything() {
  LanguageModelOptions o = small_language_options();
  o.model.hidden = o.embedding = 6;
  o.model.layers = 2;
  o.model.variational = true;
  o.model.recurrent_dropout = 0.25;
  o.model.weight_drop = 0.3;
  o.model.activation_penalty = 0.2;
  o.model.temporal_penalty = 0.1;
  o.model.skip = SkipConnection::residual;
  o.tied = true;
  return o;
}

}  // namespace

TEST_CASE("all of it together gives the same on every backend, bit for bit on any number of threads") {
  LabelOptions label;
  label.model.hidden = 6;
  label.model.dropout = 0.2;
  label.model.recurrent_dropout = 0.3;
  label.model.temporal_penalty = 1;
  label.embedding = 4;
  label.batch = 4;
  std::string sentences;
  for (int i = 0; i < 20; ++i) {
    for (int t = 0; t <= i % 5; ++t)
      sentences += "w" + std::to_string((i + t) % 6) + "\t" + std::to_string(t % 2) + "\n";
    sentences += "\n";
  }
  LabelOptions variational = label;
  variational.model.variational = true;
  for (const auto& task : {small_language_model(everything()), make_label(label, sentences, "t"),
                           make_label(variational, sentences, "t")}) {
    const Batch batch = task->batch(Split::train, 3, 0, 0);
    Graph graph;
    Scope scope(graph, /*training=*/true);
    task->build(scope, batch);
    REQUIRE(!scope.penalties().empty());
    const TensorMap expected = loss_and_gradients(*task, batch);
    const TensorMap one = loss_and_gradients(*task, batch, *make_backend("cpu", {.threads = 1})),
                    two = loss_and_gradients(*task, batch, *make_backend("cpu", {.threads = 2}));
    CHECK(same_bits(one, two));
    for (const auto& output : expected) {
      CAPTURE(output.first);
      // f32 gradients of order 1 over some tens of steps: a hundred roundings of 6e-8.
      CHECK(largest_difference(output.second, one.at(output.first)) < 1e-5);
    }
  }
}

TEST_CASE("tied: the output has no weight of its own, and a model trains, is evaluated and writes text") {
  const auto task = small_language_model(everything());
  const auto backend = make_backend("cpu");
  Trainer trainer(task, *backend, small_training(30));
  const TensorMap start = trainer.parameters();
  CHECK(!start.contains("output.weight"));
  CHECK(start.contains("output.bias"));
  double largest = 0;
  const Tensor& embedding = start.at("embedding.weight");
  for (std::int64_t i = 0; i < embedding.elements(); ++i) largest = std::max(largest, std::fabs(embedding.at(i)));
  CHECK(largest <= 0.1);
  const double before = trainer.evaluate(Split::test).loss;
  trainer.fit();
  CHECK(trainer.evaluate(Split::test).loss < before - 0.3);
  CHECK(trainer.evaluate(Split::test).loss == trainer.evaluate(Split::test).loss);
  std::string text;
  generate(task->metadata(), trainer.parameters(), *backend, {.prompt = "the", .length = 5},
           [&](std::string_view part) { text += part; });
  CHECK(text.size() >= 5);

  LanguageModelOptions o = everything();
  o.embedding = 4;
  CHECK_THROWS_WITH_AS(Trainer(small_language_model(o), *backend, small_training(1)).fit(),
                       doctest::Contains("Set embedding = 6"), Error);
}

TEST_CASE("options of regularisation that a cell does not have are refused") {
  Built b;
  const Value x = b.graph.input("x", {DType::f64, {T, B, I}});
  const auto refused = [&](const std::function<void(RecurrentModelOptions&)>& set, const char* says) {
    RecurrentModelOptions o;
    set(o);
    CHECK_THROWS_WITH_AS(recurrent_model(b.scope, x, o), doctest::Contains(says), Error);
  };
  refused([](auto& o) { o.cell = "mgu", o.weight_drop = 0.1; }, "are for rnn, gru and lstm");
  refused([](auto& o) { o.cell = "rnn", o.recurrent_dropout = 0.1; }, "needs variational = true");
  refused([](auto& o) { o.recurrent_dropout = 1; }, "must lie between 0 and 0.99");
  refused([](auto& o) { o.skip = SkipConnection{3}; }, "Use one of plain|residual|highway");
  refused([](auto& o) { o.activation_penalty = -1; }, "model.activation_penalty is -1");
}

}  // namespace test_regularisation
