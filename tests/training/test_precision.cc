// SPDX-License-Identifier: Apache-2.0
// Training in tf32, bf16 and f16: what is rounded, the loss scale, and that all backends agree.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "core/passes/passes.h"
#include "core/train/device/device_model.h"
#include "core/train/update/update_graph.h"
#include "tests/support/gradient_outputs.h"
#include "tests/training/small_tasks.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

int count(const Graph& graph, Op op) {
  int n = 0;
  for (const Node& node : graph.nodes()) n += (node.op == op) + (node.body ? count(*node.body, op) : 0);
  return n;
}

// The mean of y^2 of a layer over x [7,3,4] and its gradients by the parameters.
std::unique_ptr<Graph> trained(const std::string& cell, std::int64_t hidden) {
  auto g = std::make_unique<Graph>();
  Scope scope(*g, true);
  const Value x = g->input("x", {DType::f32, {7, 3, 4}});
  const Value loss = mean(square(recurrent_model(scope, x, {.cell = cell, .hidden = hidden}, {}, {}).y));
  g->output("loss", loss);
  output_gradients(scope, loss);
  return g;
}

// loss = mean of (x w)^2 times `big`, so that a test chooses how large gradients are.
class Product : public Task {
 public:
  double big = 1;
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    const Value w = scope.parameter("w", {4, 3}, Initializer::normal(1));
    const Value v = scope.parameter("v", {3, 2}, Initializer::normal(1));
    TaskGraph t;
    t.loss = mean(square(matmul(tanh(matmul(x, w)), v))) * big;
    return t;
  }
  std::int64_t n_batches(Split split) const override { return split == Split::train ? 100 : 2; }
  Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t index) const override {
    Batch b;
    Tensor x(DType::f32, {5, 4});
    for (std::int64_t i = 0; i < 20; ++i) x.set(i, std::sin(static_cast<double>(i * 7 + index)));
    b.inputs.emplace("x", std::move(x));
    return b;
  }
};

TrainerOptions options(Precision precision, std::int64_t updates) {
  TrainerOptions o;
  o.optimizer = {.name = "sgd", .lr = 0.01};
  o.precision = precision;
  o.max_updates = updates;
  o.validate_every = 0;
  o.log_every = 1;
  o.warn = [](const std::string&) {};
  return o;
}

std::vector<double> scales(const std::string& backend_name, const std::shared_ptr<Task>& task, TrainerOptions o) {
  const auto backend = make_backend(backend_name);
  std::vector<double> list;
  Trainer(task, *backend, o).fit([&](const Progress& p) { list.push_back(p.loss_scale.value_or(0)); });
  return list;
}

}  // namespace

TEST_CASE("a product gets rounded operands, and what is rounded is exactly what the formula says") {
  const auto backend = make_backend("reference");
  Graph g;
  const Value a = g.input("a", {DType::f32, {2, 3}}), b = g.input("b", {DType::f32, {3, 2}});
  g.output("y", matmul(a, b) + sum(a));
  const TensorMap feed{{"a", Tensor::from<float>({2, 3}, {1.001F, 2, 3, 1e-3F, 5, 6})},
                       {"b", Tensor::from<float>({3, 2}, {1, 1.003F, 1, 1, 1, 1})}};
  PlanOptions o;
  o.precision = Precision::bf16;
  const Tensor y = evaluate(g, *backend, feed, o).at("y");
  o.precision = Precision::f32;
  Graph by_hand;
  const Value ha = by_hand.input("a", {DType::f32, {2, 3}}), hb = by_hand.input("b", {DType::f32, {3, 2}});
  by_hand.output("y", matmul(round_bf16(ha), round_bf16(hb)) + sum(ha));
  const Tensor expected = evaluate(by_hand, *backend, feed, o).at("y");
  const Tensor plain = evaluate(g, *backend, feed, o).at("y");
  bool differs = false;
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(y.at(i) == expected.at(i));
    differs = differs || y.at(i) != plain.at(i);
  }
  CHECK(differs);
}

TEST_CASE("a sum reads a value as it is stored, whichever of its readers comes first") {
  const auto backend = make_backend("reference");
  PlanOptions o;
  o.precision = Precision::bf16;
  const auto sum_reads = [&](Value (*make)(Value), bool is_output, bool sum_first) {
    Graph g;
    const Value x = make(g.input("x", {DType::f32, {3, 3}}));
    if (sum_first) g.output("total", sum(x));
    g.output("product", matmul(x, x));
    if (!sum_first) g.output("total", sum(x));
    if (is_output) g.output("x", x);
    const auto graph = lower(g, *backend, o);
    for (const Node& node : graph->nodes())
      if (node.op == Op::reduce_sum) return graph->type(node.inputs[0]).dtype;
    return DType::i32;
  };
  const auto given = [](Value x) { return x; };
  const auto made = [](Value x) { return tanh(x); };
  for (const bool sum_first : {false, true}) {
    CAPTURE(sum_first);
    CHECK(sum_reads(given, false, sum_first) == DType::f32);  // an input is there already
    CHECK(sum_reads(made, false, sum_first) == DType::bf16);
    CHECK(sum_reads(made, true, sum_first) == DType::f32);
  }
}

TEST_CASE("a plan of bf16 stores by role: operands of products, sequences, stacks; not c, sums and gradients") {
  const auto backend = make_backend("cpu");
  const auto g = trained("lstm", 5);
  PlanOptions o;
  o.precision = Precision::bf16;
  const auto graph = lower(*g, *backend, o);
  CHECK(count(*graph, Op::round_bf16) == 0);
  int n_products = 0, n_scans = 0;
  const std::function<void(const Graph&)> visit = [&](const Graph& inside) {
    for (const Node& node : inside.nodes()) {
      if (node.body && node.op == Op::scan) visit(*node.body);
      if (node.op != Op::matmul) continue;
      ++n_products;
      for (const ValueId id : node.inputs) CHECK(inside.type(id).dtype == DType::bf16);
    }
  };
  visit(*graph);
  CHECK(n_products == 5);  // gates of x, of h; d_h; d_weight_hh, d_weight_ih
  for (const Node& node : graph->nodes()) {
    if (node.op != Op::scan) continue;
    const ScanLayout layout = scan_layout(node);
    for (int k = layout.n_states; k < static_cast<int>(node.outputs.size()); ++k)
      CHECK(node.outputs[static_cast<std::size_t>(k)].dtype == DType::bf16);
    for (int i = layout.n_states; i < layout.n_states + layout.n_sequences; ++i)
      CHECK(graph->type(node.inputs[static_cast<std::size_t>(i)]).dtype == DType::bf16);
    if (n_scans++ > 0) continue;
    CHECK(node.outputs[0].dtype == DType::bf16);  // h: only the product reads it
    CHECK(node.outputs[1].dtype == DType::f32);   // c
  }
  CHECK(n_scans == 2);
  for (const NamedValue& output : graph->outputs()) CHECK(graph->type(output.value).dtype == DType::f32);
  o.precision = Precision::f32;
  const std::string plain = print_graph(*lower(*g, *backend, o));
  CHECK(plain.find("bf16") == std::string::npos);
}

TEST_CASE("no plan of a backend that stores the format holds roundings, whatever the cell") {
  for (const char* cell : {"rnn", "gru", "lstm", "lnlstm"})
    for (const char* name : {"cpu", "reference", "cuda:sm_90"})
      for (const Precision precision : {Precision::bf16, Precision::f16}) {
        CAPTURE(cell);
        CAPTURE(name);
        PlanOptions o;
        o.precision = precision;
        const auto graph = lower(*trained(cell, 8), *make_backend(name), o);
        CHECK(count(*graph, Op::round_bf16) + count(*graph, Op::round_f16) == 0);
        CHECK(print_graph(*graph).find(precision == Precision::bf16 ? "bf16[" : "f16[") != std::string::npos);
      }
}

TEST_CASE("a backend without the dtype gets roundings that give the same bits") {
  const auto reference = make_backend("reference");
  const auto g = trained("lstm", 5);
  const auto plain = lower(*g, *reference, {});
  const DType all[] = {DType::f32, DType::bf16, DType::f16}, few[] = {DType::f32};
  TensorMap feed;
  for (const NamedValue& input : g->inputs()) {
    Tensor t(g->type(input.value));
    for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, std::sin(static_cast<double>(i * 7 + 1)) / 2);
    feed.emplace(input.name, std::move(t));
  }
  for (const Precision precision : {Precision::bf16, Precision::f16}) {
    CAPTURE(precision_name(precision));
    const auto stored = set_precision(*plain, precision, all), rounded = set_precision(*plain, precision, few);
    CHECK(count(*stored, Op::round_bf16) + count(*stored, Op::round_f16) == 0);
    CHECK(count(*rounded, Op::cast) == 0);
    const TensorMap a = evaluate(*stored, *reference, feed), b = evaluate(*rounded, *reference, feed);
    const TensorMap exact = evaluate(*plain, *reference, feed);
    for (const auto& output : a) {
      const auto& [name, tensor] = output;
      CAPTURE(output.first);
      bool same = true, differs = false;
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        same = same && tensor.at(i) == b.at(name).at(i);
        differs = differs || tensor.at(i) != exact.at(name).at(i);
      }
      CHECK(same);
      CHECK(differs);
    }
  }
}

TEST_CASE("storing a value in 16 bits does not round its gradient") {
  const auto backend = make_backend("reference");
  for (const DType half : {DType::bf16, DType::f16}) {
    Graph g;
    const Value x = g.input("x", {DType::f32, {2, 3}}), w = g.input("w", {half, {3, 3}});
    const Value states[] = {cast(x, half)}, constants[] = {w};
    const ScanResult r = scan(
        states, {}, constants,
        [half](const StepValues& v) {
          const Value h = cast(tanh(matmul(v.states[0], v.constants[0])), half);
          return StepResult{{h}, {h}};
        },
        {.lengths = {}, .reset = {}, .steps = 3});
    const Value loss = sum(cast(r.outputs[0], DType::f32) * cast(r.outputs[0], DType::f32));
    const std::vector<Value> d = differentiate(loss, std::vector{x, w});
    CHECK(d[0].type() == x.type());
    CHECK(d[1].type() == Type{DType::f32, w.shape()});
    g.output("d_x", d[0]);
    g.output("d_w", d[1]);
    // The same in f32 on numbers that the format holds; what differs is the rounding of h, at most 2^-8 or 2^-11 of it
    // in each of three steps, forward and backward.
    Graph plain;
    const Value px = plain.input("x", {DType::f32, {2, 3}}), pw = plain.input("w", {DType::f32, {3, 3}});
    const Value pstates[] = {px}, pconstants[] = {pw};
    const ScanResult pr = scan(
        pstates, {}, pconstants,
        [](const StepValues& v) {
          const Value h = tanh(matmul(v.states[0], v.constants[0]));
          return StepResult{{h}, {h}};
        },
        {.lengths = {}, .reset = {}, .steps = 3});
    const std::vector<Value> pd = differentiate(sum(pr.outputs[0] * pr.outputs[0]), std::vector{px, pw});
    plain.output("d_x", pd[0]);
    plain.output("d_w", pd[1]);
    Tensor tx(DType::f32, {2, 3}), tw(half, {3, 3});
    for (std::int64_t i = 0; i < 6; ++i) tx.set(i, static_cast<double>(i - 2) / 4);
    for (std::int64_t i = 0; i < 9; ++i) tw.set(i, std::cos(static_cast<double>(3 * i)));
    const TensorMap got = evaluate(g, *backend, {{"x", tx}, {"w", tw}}),
                    wanted = evaluate(plain, *backend, {{"x", tx}, {"w", tw.cast(DType::f32)}});
    const double u = half == DType::bf16 ? 0x1p-8 : 0x1p-11;
    for (const auto& [name, tensor] : wanted) {
      double largest = 0;
      for (std::int64_t i = 0; i < tensor.elements(); ++i) largest = std::max(largest, std::fabs(tensor.at(i)));
      bool off_grid = false;
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        CHECK(std::fabs(got.at(name).at(i) - tensor.at(i)) <= 6 * u * largest);
        off_grid = off_grid || got.at(name).cast(half).at(i) != got.at(name).at(i);
      }
      CHECK(off_grid);
    }
  }
}

TEST_CASE("f64 graphs are left as they are") {
  const auto backend = make_backend("reference");
  Graph g;
  g.output("y", matmul(g.input("a", {DType::f64, {2, 3}}), g.input("b", {DType::f64, {3, 2}})));
  PlanOptions o;
  o.precision = Precision::f16;
  CHECK(count(*lower(g, *backend, o), Op::round_f16) == 0);
}

TEST_CASE("the loss scale is halved by an overflow and doubled after updates without one, and changes no update") {
  const auto task = std::make_shared<Product>();
  TrainerOptions o = options(Precision::f16, 12);
  o.loss_scale = {.initial = 16777216, .growth_every = 4};
  // Gradients that enter products: about scale times what f32 has; at 2^24 they are beyond 65504.
  const std::vector<double> seen = scales("reference", task, o);
  CHECK(seen[0] == 8388608);
  CHECK(seen.back() <= 16777216 / 64);
  bool grew = false;
  for (std::size_t i = 1; i < seen.size(); ++i) {
    CHECK((seen[i] == seen[i - 1] || seen[i] == 2 * seen[i - 1] || seen[i] == seen[i - 1] / 2));
    grew = grew || seen[i] == 2 * seen[i - 1];
  }
  CHECK(grew);
  // Without overflow a scale is exact: the same parameters with any.
  const auto trained = [&](double scale) {
    TrainerOptions one = options(Precision::f16, 5);
    one.loss_scale = {.initial = scale, .growth_every = 100};
    const auto backend = make_backend("reference");
    Trainer trainer(task, *backend, one);
    const TrainResult r = trainer.fit();
    CHECK(r.skipped_updates == 0);
    return trainer.parameters().at("w");
  };
  const Tensor a = trained(256), b = trained(1024);
  for (std::int64_t i = 0; i < a.elements(); ++i) CHECK(a.at(i) == b.at(i));
}

TEST_CASE("overflows do not count as bad updates until the scale is at its lowest") {
  const auto task = std::make_shared<Product>();
  task->big = 1e7;  // overflows even without a scale
  TrainerOptions o = options(Precision::f16, 60);
  o.loss_scale = {.initial = 256, .growth_every = 100, .lowest = 1};
  o.max_bad_updates = 3;
  const auto backend = make_backend("reference");
  std::int64_t last = 0;
  CHECK_THROWS_WITH_AS(Trainer(task, *backend, o).fit([&](const Progress& p) { last = p.update; }),
                       doctest::Contains("first in the backward pass matmul"), Error);  // replayed in f16
  CHECK(last == 10);  // eight halvings, then three bad ones, of which the last is not logged
}

TEST_CASE("reference and cpu go through the same loss scales, and resume keeps them") {
  const auto task = std::make_shared<Product>();
  TrainerOptions o = options(Precision::f16, 40);
  o.loss_scale = {.initial = 16777216, .growth_every = 3};
  const std::vector<double> a = scales("reference", task, o);
  CHECK(a == scales("cpu", task, o));
  CHECK(a.size() == 40);
}

TEST_CASE("small gradients vanish in f16 without a scale and survive with one") {
  const auto task = std::make_shared<Product>();
  task->big = 1e-6;
  const auto backend = make_backend("reference");
  const auto moved = [&](double scale) {
    TrainerOptions o = options(Precision::f16, 1);
    o.optimizer.lr = 1e3;
    o.clip.norm = 0;
    o.loss_scale = {.initial = scale, .growth_every = 100};
    Trainer trainer(task, *backend, o);
    const Tensor before = trainer.parameters().at("w");
    trainer.fit();
    const Tensor after = trainer.parameters().at("w");
    double sum = 0;
    for (std::int64_t i = 0; i < before.elements(); ++i) sum += std::fabs(after.at(i) - before.at(i));
    return sum;
  };
  const double with = moved(65536), without = moved(1);
  TrainerOptions exact = options(Precision::f32, 1);
  CHECK(with > 0);
  CHECK(without < 0.9 * with);
}

TEST_CASE("each precision trains the small tasks to about the loss of f32") {
  const auto backend = make_backend("cpu");
  const auto loss = [&](Precision precision) {
    TrainerOptions o = small_training(40);
    o.precision = precision;
    Trainer trainer(small_classify(), *backend, o);
    trainer.fit();
    return trainer.evaluate(Split::test).loss;
  };
  const double f32 = loss(Precision::f32);
  for (const Precision p : {Precision::tf32, Precision::bf16, Precision::f16}) {
    CAPTURE(precision_name(p));
    CHECK(loss(p) == doctest::Approx(f32).epsilon(0.05));
  }
}

TEST_CASE(
    "a precision is checked against f32 by the smoothed losses of the same updates, and agrees within a tolerance") {
  const auto backend = make_backend("cpu", {.threads = 1});
  TrainerOptions o = small_training(30);
  o.precision = Precision::bf16;
  const PrecisionCheck check = check_precision(small_language_model(), *backend, o, 24, 0.02);
  REQUIRE(check.points.size() == 24);
  CHECK(check.agrees);
  CHECK(check.failure.empty());
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    TrainerOptions alone = o;
    alone.precision = precision;
    alone.log_every = 1;
    double sum = 0, weights = 0;
    std::size_t i = 0;
    Trainer(small_language_model(), *backend, alone).fit([&](const Progress& p) {
      if (p.validation_loss || i == check.points.size()) return;
      sum = 0.9 * sum + 0.1 * p.loss;
      weights = 0.9 * weights + 0.1;
      const PrecisionCheck::Point& point = check.points[i++];
      CHECK(point.update == p.update);
      CHECK((precision == Precision::f32 ? point.f32 : point.own) == doctest::Approx(sum / weights).epsilon(1e-12));
    });
  }
  double largest = 0;
  for (const auto& p : check.points) largest = std::max(largest, std::fabs(p.own - p.f32) / p.f32);
  CHECK(check.largest == largest);
  CHECK(largest > 0);
  CHECK(std::fabs(check.points[static_cast<std::size_t>(check.largest_at) - 1].own /
                  check.points[static_cast<std::size_t>(check.largest_at) - 1].f32 - 1) == doctest::Approx(largest));
  CHECK_FALSE(check_precision(small_language_model(), *backend, o, 24, largest / 2).agrees);
}

TEST_CASE("a run that its precision stops does not agree with f32 and says why; f32 is not checked") {
  const auto backend = make_backend("cpu", {.threads = 1});
  const auto task = std::make_shared<Product>();
  task->big = 1e7;
  TrainerOptions o = options(Precision::f16, 20);
  o.optimizer.lr = 1e-12;
  o.loss_scale = {.initial = 1, .lowest = 1};
  const PrecisionCheck check = check_precision(task, *backend, o, 10, 0.02);
  CHECK_FALSE(check.agrees);
  CHECK(check.failure.find("non-finite loss or gradient") != std::string::npos);
  CHECK(check.points.size() == 10);
  CHECK(std::isnan(check.points.back().own));
  o.precision = Precision::f32;
  CHECK_THROWS_WITH_AS(check_precision(task, *backend, o, 10, 0.02), doctest::Contains("the precision is f32"), Error);
  o.precision = Precision::bf16;
  CHECK_THROWS_WITH_AS(check_precision(task, *backend, o, 0, 0.02), doctest::Contains("at least 1"), Error);
}
