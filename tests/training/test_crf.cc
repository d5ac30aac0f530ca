// SPDX-License-Identifier: Apache-2.0
// The conditional random field against the sum and the maximum over all labels, written out.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/backends.h"
#include "tests/support/each_backend.h"
#include "tests/training/small_tasks.h"
#include "tests/training/task_gradients.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr std::int64_t B = 4, K = 3;

struct Numbers {
  std::int64_t T;
  Tensor scores, labels, start, transition, end, lengths;
};
Numbers numbers(std::int64_t T, double scale, DType dtype = DType::f64) {
  Numbers n{T,
            Tensor(dtype, {T, B, K}),
            Tensor(DType::i32, {T, B}),
            Tensor(dtype, {K}),
            Tensor(dtype, {K, K}),
            Tensor(dtype, {K}),
            Tensor(DType::i32, {B})};
  double seed = 1;
  for (Tensor* t : {&n.scores, &n.start, &n.transition, &n.end})
    for (std::int64_t i = 0; i < t->elements(); ++i) t->set(i, scale * std::sin(seed += 1.7));
  for (std::int64_t i = 0; i < T * B; ++i) n.labels.set(i, static_cast<double>(i * 5 % 7 % K));
  for (std::int64_t b = 0; b < B; ++b) n.lengths.set(b, static_cast<double>((T + 1) * b / B));  // the first is empty
  return n;
}

using Path = std::vector<std::int64_t>;
double score_of(const Numbers& n, std::int64_t b, const Path& y) {
  double score = n.start.at(y.front()) + n.end.at(y.back());
  for (std::size_t t = 0; t < y.size(); ++t) {
    score += n.scores.at((static_cast<std::int64_t>(t) * B + b) * K + y[t]);
    if (t > 0) score += n.transition.at(y[t - 1] * K + y[t]);
  }
  return score;
}
void for_each_path(std::int64_t length, const std::function<void(const Path&)>& see) {
  Path y(static_cast<std::size_t>(length), 0);
  for (bool more = true; more;) {
    see(y);
    more = false;
    for (std::size_t t = 0; t < y.size() && !more; ++t) {
      more = ++y[t] < K;
      if (!more) y[t] = 0;
    }
  }
}

TensorMap run(const Numbers& n, const std::string& backend = "reference") {
  Graph graph;
  const auto input = [&](const char* name, const Tensor& t) { return graph.input(name, t.type()); };
  const Value scores = input("scores", n.scores), labels = input("labels", n.labels),
              lengths = input("lengths", n.lengths);
  const Crf crf{input("start", n.start), input("transition", n.transition), input("end", n.end)};
  const Value loss = crf_loss(crf, scores, labels, lengths);
  graph.output("loss", loss);
  graph.output("best", crf_decode(crf, scores, lengths));
  const std::vector<Value> wrt{scores, crf.start, crf.transition, crf.end};
  const std::vector<Value> gradients = differentiate(sum(loss), wrt);
  const char* names[] = {"scores", "start", "transition", "end"};
  for (std::size_t i = 0; i < wrt.size(); ++i) graph.output(std::string("d.") + names[i], gradients[i]);
  return evaluate(graph, *make_backend(backend),
                  {{"scores", n.scores}, {"labels", n.labels}, {"lengths", n.lengths},
                   {"start", n.start}, {"transition", n.transition}, {"end", n.end}});
}

}  // namespace

TEST_CASE("the loss is -log of the labels' share of all labels, the gradient how often each is expected beyond them") {
  for (const std::int64_t T : {1, 2, 6}) {
    CAPTURE(T);
    const Numbers n = numbers(T, 1.5);
    const TensorMap got = run(n);
    // d log Z is the expectation under the model, d score what is there.
    Tensor d_scores(n.scores.type()), d_start(n.start.type()), d_transition(n.transition.type()), d_end(n.end.type());
    for (std::int64_t b = 0; b < B; ++b) {
      const auto length = static_cast<std::int64_t>(n.lengths.at(b));
      if (length == 0) {
        CHECK(got.at("loss").at(b) == 0);
        continue;
      }
      Path truth;
      for (std::int64_t t = 0; t < length; ++t) truth.push_back(static_cast<std::int64_t>(n.labels.at(t * B + b)));
      double z = 0;
      for_each_path(length, [&](const Path& y) { z += std::exp(score_of(n, b, y)); });
      CHECK(got.at("loss").at(b) == doctest::Approx(std::log(z) - score_of(n, b, truth)).epsilon(1e-12));
      const auto count = [&](const Path& y, double weight) {
        const auto add = [&](Tensor& to, std::int64_t i) { to.set(i, to.at(i) + weight); };
        add(d_start, y.front());
        add(d_end, y.back());
        for (std::size_t t = 0; t < y.size(); ++t) {
          add(d_scores, (static_cast<std::int64_t>(t) * B + b) * K + y[t]);
          if (t > 0) add(d_transition, y[t - 1] * K + y[t]);
        }
      };
      for_each_path(length, [&](const Path& y) { count(y, std::exp(score_of(n, b, y)) / z); });
      count(truth, -1);
    }
    const auto same = [&](const char* name, const Tensor& expected) {
      CAPTURE(name);
      for (std::int64_t i = 0; i < expected.elements(); ++i)
        CHECK(std::fabs(got.at(name).at(i) - expected.at(i)) < 1e-12);  // sums of some hundred terms below 1 in f64
    };
    same("d.scores", d_scores);
    same("d.start", d_start);
    same("d.transition", d_transition);
    same("d.end", d_end);
  }
}

TEST_CASE("decoding gives the labels of the highest score, and zeros behind the end") {
  for (const std::int64_t T : {1, 2, 6})
    for (const std::string& backend : testing::computing_backends()) {
      const std::vector<DType> has = make_backend(backend)->describe().dtypes;
      const bool in_f64 = std::find(has.begin(), has.end(), DType::f64) != has.end();
      const Numbers n = numbers(T, 1.5, in_f64 ? DType::f64 : DType::f32);
      const Tensor best = run(n, backend).at("best");
      for (std::int64_t b = 0; b < B; ++b) {
        const auto length = static_cast<std::int64_t>(n.lengths.at(b));
        Path found;
        for (std::int64_t t = 0; t < T; ++t) {
          const auto label = static_cast<std::int64_t>(best.at(t * B + b));
          if (t < length) found.push_back(label);
          else CHECK(label == 0);
        }
        if (length == 0) continue;
        double highest = -1e30;
        for_each_path(length, [&](const Path& y) { highest = std::max(highest, score_of(n, b, y)); });
        CHECK(score_of(n, b, found) == doctest::Approx(highest).epsilon(1e-12));
      }
    }
}

TEST_CASE("scores of hundreds and transitions that forbid give a finite loss and gradient") {
  Numbers n = numbers(6, 300);
  n.transition.set(1, -1e4);
  for (const auto& output : run(n)) {
    CAPTURE(output.first);
    CHECK(output.second.all_finite());
  }
}

namespace {

// What a token says of its label is nothing: labels go a b c a b c from a random start that the first token tells.
std::string cycles(int n = 80) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    for (int t = 0; t < 3 + i % 5; ++t)
      text += (t == 0 ? "s" + std::to_string(i * 7 % 3) : std::string("w")) + "\t" + "abc"[(i * 7 + t) % 3] + "\n";
    text += "\n";
  }
  return text;
}
LabelOptions crf_options() {
  LabelOptions o;
  o.model.cell = "rnn";
  o.model.hidden = 4;
  o.embedding = 3;
  o.batch = 8;
  o.min_count = 1;
  o.test = 0.3;
  o.output = "crf";
  return o;
}

}  // namespace

TEST_CASE("a labeler with a field: padding changes nothing, metrics are those of the labels it gives") {
  const auto task = make_label(crf_options(), cycles(), "t");
  const auto backend = make_backend("cpu");
  Trainer trainer(task, *backend, small_training(150));
  trainer.fit();
  const EvaluateResult result = trainer.evaluate(Split::test);
  CHECK(result.metrics.at("accuracy") > 0.9);
  Labeler labeler(task->metadata(), trainer.parameters(), *backend);
  const auto labels = labeler.label(labeler.cut("s1 w w w w"));
  CHECK(labels == std::vector<std::string>{"b", "c", "a", "b", "c"});

  Batch batch = task->batch(Split::train, 3, 0, 0);
  const TensorMap plain = loss_and_gradients(*task, batch);
  Tensor &ids = batch.inputs.at("ids"), &truth = batch.inputs.at("labels");
  const Tensor& lengths = batch.inputs.at("lengths");
  const std::int64_t T = ids.shape()[0], n = ids.shape()[1];
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < T * n; ++i) {
    if (i / n < static_cast<std::int64_t>(lengths.at(i % n))) continue;
    ids.set(i, 1);
    truth.set(i, -1);
    ++changed;
  }
  REQUIRE(changed > 0);
  CHECK(same_bits(plain, loss_and_gradients(*task, batch)));
}

TEST_CASE("an output of another name, and smoothed labels of a field, are refused") {
  LabelOptions o = crf_options();
  o.output = "crv";
  CHECK_THROWS_WITH_AS(make_label(o, cycles(), "t"), doctest::Contains("Use one of softmax|crf"), Error);
  o.output = "crf";
  o.label_smoothing = 0.1;
  CHECK_THROWS_WITH_AS(make_label(o, cycles(), "t"), doctest::Contains("Set label_smoothing = 0"), Error);
}
