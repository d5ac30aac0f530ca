// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/tasks/common/pooling.h"
#include "core/tasks/language_model/sampling.h"
#include "tests/support/each_backend.h"
#include "tests/training/small_tasks.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

ForecastOptions small_forecast_options() {
  ForecastOptions o = plain_forecast();
  o.model.hidden = 4;
  o.window = 3;
  o.period = 2;
  o.batch = 4;
  o.validation = 0.2;
  o.test = 0.2;
  return o;
}
// 20 values t^2, with a gap at 7.
std::string squares() {
  std::string csv = "t,v\n";
  for (int t = 0; t < 20; ++t) csv += std::to_string(t) + "," + (t == 7 ? std::string() : std::to_string(t * t)) + "\n";
  return csv;
}

}  // namespace

TEST_CASE(
    "a language model's windows follow each other and every held-out character but the first of a stream is "
    "predicted") {
  const auto task = small_language_model();
  std::int64_t predicted = 0;
  for (std::int64_t i = 0; i < task->n_batches(Split::test); ++i) {
    const Batch b = task->batch(Split::test, 0, 0, i);
    CHECK(b.starts_stream == (i == 0));
    predicted += b.inputs.at("labels").elements();
  }
  const auto n = static_cast<std::int64_t>(small_text().size()),
             held = static_cast<std::int64_t>(std::ceil(0.1 * static_cast<double>(n)));
  CHECK(predicted == (held - 1) / 2 * 2);
  const Batch a = task->batch(Split::train, 0, 0, 0), b = task->batch(Split::train, 0, 0, 1);
  CHECK(a.inputs.at("labels").at(4 * 3) == b.inputs.at("ids").at(0));
}

TEST_CASE("a character that training never saw is the unknown one, also with the vocabulary of a trained model") {
  LanguageModelOptions o = small_language_options();
  const auto task = make_language_model(o, small_text() + "ZZZZZZZZZZ", "t");
  CHECK(task->metadata().at("vocabulary").find('Z') == std::string::npos);
  const Metadata fitted{{"vocabulary", "abc"}};
  CHECK(make_language_model(o, small_text(), "t", fitted)->metadata().at("vocabulary") == "abc");
}

TEST_CASE("without carried state every window of training and validation begins with zeros") {
  LanguageModelOptions o = small_language_options();
  for (const bool carries : {true, false}) {
    o.carry_state = carries;
    const auto task = small_language_model(o);
    for (const Split split : {Split::train, Split::test}) {
      REQUIRE(task->n_batches(split) > 2);
      for (std::int64_t i = 0; i < task->n_batches(split); ++i)
        CHECK(task->batch(split, 0, 0, i).starts_stream == (!carries || i == 0));
    }
  }
}

TEST_CASE("bad text is refused with the place or the rule") {
  const LanguageModelOptions o = small_language_options();
  CHECK_THROWS_WITH_AS(make_language_model(o, "", "empty.txt"), doctest::Contains("empty.txt"), Error);
  CHECK_THROWS_WITH_AS(make_language_model(o, "abc\xFF", "t"), doctest::Contains("byte 4"), Error);
  CHECK_THROWS_WITH_AS(make_language_model(o, "short text", "t"), doctest::Contains("too few"), Error);
  LanguageModelOptions bidirectional = o;
  bidirectional.model.bidirectional = true;
  const auto backend = make_backend("reference");
  CHECK_THROWS_WITH_AS(Trainer(small_language_model(bidirectional), *backend, small_training(1)),
                       doctest::Contains("bidirectional"), Error);
}

TEST_CASE("forecast windows hold the values before the target, scaled by the training split") {
  ForecastOptions o = small_forecast_options();
  const auto task = make_forecast(o, squares(), "squares.csv");
  const double mean = std::stod(task->metadata().at("scaler.mean")),
               deviation = std::stod(task->metadata().at("scaler.deviation"));
  // Training is t < 12, with 36 in the gap at 7.
  double expected = 0;
  for (int t = 0; t < 12; ++t) expected += (t == 7 ? 36 : t * t) / 12.0;
  CHECK(mean == doctest::Approx(expected));
  std::set<int> targets;
  for (std::int64_t i = 0; i < task->n_batches(Split::train); ++i) {
    const Batch b = task->batch(Split::train, 5, 0, i);
    const Tensor &x = b.inputs.at("x"), &y = b.inputs.at("target");
    const std::int64_t B = y.elements();
    for (std::int64_t k = 0; k < B; ++k) {
      const int t = static_cast<int>(std::lround(std::sqrt(y.at(k) * deviation + mean)));
      targets.insert(t);
      for (int w = 0; w < 3; ++w) {
        const int from = t - 3 + w == 7 ? 6 : t - 3 + w;
        CHECK(x.at(w * B + k) * deviation + mean == doctest::Approx(from * from).epsilon(1e-5));
      }
    }
  }
  CHECK(targets == std::set<int>{3, 4, 5, 6, 8, 9, 10, 11});
  CHECK(task->n_batches(Split::validation) == 1);
  CHECK(task->batch(Split::test, 0, 0, 0).inputs.at("target").elements() == 4);
}

TEST_CASE("baselines of a forecast are what they say") {
  ForecastOptions o = small_forecast_options();
  for (const bool difference : {false, true}) {
    o.difference = difference ? "first" : "none";
    const auto baselines = make_forecast(o, squares(), "squares.csv")->baselines(Split::test);
    // Test targets 16 .. 19: t^2 - (t-1)^2 = 31, 33, 35, 37 and t^2 - (t-2)^2 = 60, 64, 68, 72.
    CHECK(baselines.at("persistence").at("mae") == doctest::Approx(34));
    CHECK(baselines.at("persistence").at("rmse") ==
          doctest::Approx(std::sqrt((31 * 31 + 33 * 33 + 35 * 35 + 37 * 37) / 4.0)));
    CHECK(baselines.at("seasonal_naive").at("mae") == doctest::Approx(66));
    CHECK(std::isfinite(baselines.at("linear_ar").at("mae")));
  }
}

TEST_CASE("the metrics of a forecast are in the column's units") {
  const auto backend = make_backend("reference");
  ForecastOptions o = small_forecast_options();
  const auto task = make_forecast(o, squares(), "squares.csv");
  Trainer trainer(task, *backend, small_training(1));
  TensorMap zeros = trainer.parameters();
  for (auto& [name, tensor] : zeros) tensor = Tensor(tensor.type());
  trainer.set_parameters(zeros);  // always predicts the mean
  const double mean = std::stod(task->metadata().at("scaler.mean"));
  double absolute = 0, square = 0;
  for (int t = 16; t < 20; ++t) {
    absolute += (t * t - mean) / 4;
    square += (t * t - mean) * (t * t - mean) / 4;
  }
  const EvaluateResult r = trainer.evaluate(Split::test);
  CHECK(r.metrics.at("mae") == doctest::Approx(absolute).epsilon(1e-5));
  CHECK(r.metrics.at("rmse") == doctest::Approx(std::sqrt(square)).epsilon(1e-5));
}

TEST_CASE(
    "a forecast of several values holds them all, each in units of its own distance, and leaves out what is missing") {
  ForecastOptions o = small_forecast_options();
  o.horizon = 2;
  for (const bool difference : {false, true}) {
    o.difference = difference ? "first" : "none";
    const auto task = make_forecast(o, squares(), "squares.csv");
    const Metadata m = task->metadata();
    CHECK(m.at("horizon") == "2");
    const auto number = [&](const std::string& key) { return std::stod(m.at(key)); };
    const Batch b = task->batch(Split::test, 0, 0, 0);
    const Tensor &x = b.inputs.at("x"), &y = b.inputs.at("target");
    REQUIRE(y.shape() == Shape{3, 2});  // 16 17, 17 18, 18 19
    for (std::int64_t k = 0; k < 3; ++k) {
      const auto t = static_cast<double>(16 + k), last = (t - 1) * (t - 1);
      const double before = x.at(2 * 3 + k) * number("scaler.deviation") + number("scaler.mean");
      CHECK(before == doctest::Approx(difference ? last - (t - 2) * (t - 2) : last).epsilon(1e-5));
      for (int h = 0; h < 2; ++h) {
        const std::string key = h == 0 ? "scaler" : "scaler.1";
        const double value = y.at(2 * k + h) * number(key + ".deviation") + number(key + ".mean");
        CHECK(value + (difference ? last : 0) == doctest::Approx((t + h) * (t + h)).epsilon(1e-5));
        CHECK(b.inputs.at("observed").at(2 * k + h) == 1);
      }
    }
    // Of the changes over two steps in training (from 2 to 4, ... from 9 to 11), the value at 7 being that at 6.
    if (difference) CHECK(number("scaler.1.deviation") > number("scaler.deviation"));
    double missing = 0;
    for (std::int64_t i = 0; i < task->n_batches(Split::train); ++i) {
      const Tensor seen = task->batch(Split::train, 5, 0, i).inputs.at("observed");
      for (std::int64_t k = 0; k < seen.elements(); ++k) missing += 1 - seen.at(k);
    }
    CHECK(missing == 2);  // the gap at 7 is one of two values in two windows
    // Errors at 16 17 17 18 18 19 of the value before each window, and of that two before.
    const auto baselines = task->baselines(Split::test);
    CHECK(baselines.at("persistence").at("mae") ==
          doctest::Approx((31 + 64 + 33 + 68 + 35 + 72) / 6.0));
    CHECK(baselines.at("seasonal_naive").at("mae") == doctest::Approx((60 + 64 + 64 + 68 + 68 + 72) / 6.0));
  }
  o.horizon = 3;  // its third value is one season and one value from the last known one
  CHECK(make_forecast(o, squares(), "squares.csv")->baselines(Split::test).at("seasonal_naive").at("mae") ==
        doctest::Approx((60 + 64 + 18 * 18 - 14 * 14 + 64 + 68 + 19 * 19 - 15 * 15) / 6.0));
}

TEST_CASE(
    "mase is the error in units of that of the season before in training, and missing values count in no metric") {
  const auto backend = make_backend("reference");
  ForecastOptions o = small_forecast_options();
  o.horizon = 2;
  const auto task = make_forecast(o, squares(), "squares.csv");
  Trainer trainer(task, *backend, small_training(1));
  TensorMap zeros = trainer.parameters();
  for (auto& [name, tensor] : zeros) tensor = Tensor(tensor.type());
  trainer.set_parameters(zeros);
  const double mean = std::stod(task->metadata().at("scaler.mean"));
  // Season 2, t = 2 .. 11 without 7: t^2 - (t-2)^2 = 4 t - 4, and at 9 what is read at 7 is 36.
  double season = 0;
  for (const int t : {2, 3, 4, 5, 6, 8, 10, 11}) season += (4 * t - 4) / 9.0;
  season += (81 - 36) / 9.0;
  const EvaluateResult test = trainer.evaluate(Split::test), train = trainer.evaluate(Split::train);
  double absolute = 0;
  for (const int t : {16, 17, 17, 18, 18, 19}) absolute += (t * t - mean) / 6;
  CHECK(test.metrics.at("mae") == doctest::Approx(absolute).epsilon(1e-5));
  CHECK(test.metrics.at("mase") == doctest::Approx(absolute / season).epsilon(1e-5));
  double seen = 0, n = 0;
  for (int t = 3; t + 1 < 12; ++t)
    for (const int at : {t, t + 1}) {
      if (at == 7) continue;
      seen += std::fabs(at * at - mean);
      ++n;
    }
  CHECK(train.metrics.at("mae") == doctest::Approx(seen / n).epsilon(1e-5));
}

TEST_CASE("bad series are refused with line and column") {
  const ForecastOptions o = small_forecast_options();
  CHECK_THROWS_WITH_AS(make_forecast(o, "t,v\n1,2\n2,x\n", "s.csv"), doctest::Contains("line 3, column 2"), Error);
  CHECK_THROWS_WITH_AS(make_forecast(o, "t,v\n1,2\n2,inf\n", "s.csv"), doctest::Contains("line 3, column 2"), Error);
  CHECK_THROWS_WITH_AS(make_forecast(o, "t,v\n1,2\n2,3\n", "s.csv"), doctest::Contains("too few for a training window"),
                       Error);
  ForecastOptions named = o;
  named.column = "w";
  CHECK_THROWS_WITH_AS(make_forecast(named, squares(), "s.csv"), doctest::Contains("Columns: t, v"), Error);
}

TEST_CASE("every line is in one split, batches of an epoch hold every training line once, in an order of the epoch") {
  const auto task = small_classify();
  const auto sums = [&](Split split, std::int64_t epoch) {
    std::vector<double> all;  // a fingerprint of each line
    for (std::int64_t i = 0; i < task->n_batches(split); ++i) {
      const Batch b = task->batch(split, 3, epoch, i);
      const Tensor &x = b.inputs.at("x"), &label = b.inputs.at("labels");
      const std::int64_t B = label.elements();
      for (std::int64_t k = 0; k < B; ++k) all.push_back(x.at(k) + 10 * x.at(B + k) + 1000 * label.at(k));
    }
    return all;
  };
  auto first = sums(Split::train, 0), second = sums(Split::train, 1);
  CHECK(first.size() == 28);
  CHECK(sums(Split::validation, 0).size() == 4);
  CHECK(sums(Split::test, 0).size() == 8);
  CHECK(first != second);
  CHECK(first == sums(Split::train, 0));
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  CHECK(first == second);
  CHECK(task->baselines(Split::test).at("most_frequent").at("accuracy") == doctest::Approx(0.5).epsilon(0.6));
}

TEST_CASE("a language model reads bytes, characters, words or byte pairs, and writes text of them") {
  const auto backend = make_backend("cpu");
  std::map<std::string, double> bits;
  for (const char* kind : {"bytes", "characters", "words", "bpe"}) {
    CAPTURE(kind);
    LanguageModelOptions o = small_language_options();
    o.tokens = kind;
    o.vocabulary = 270;
    const auto task = make_language_model(o, small_text(120), "small text");
    Trainer trainer(task, *backend, small_training(60));
    const double before = trainer.evaluate(Split::test).loss;
    trainer.fit();
    const EvaluateResult r = trainer.evaluate(Split::test);
    CHECK(r.loss < before);
    CHECK(r.metrics.at("perplexity") == doctest::Approx(std::exp(r.loss)).epsilon(1e-5));
    if (r.metrics.contains("bits_per_character")) bits[kind] = r.metrics.at("bits_per_character");
    std::string text;
    generate(task->metadata(), trainer.parameters(), *backend, {.prompt = "the cat", .length = 30, .seed = 1},
             [&](std::string_view part) { text += part; });
    CHECK(text.size() >= 30);
    CHECK(make_language_model(o, small_text(120), "t", task->metadata())->metadata() == task->metadata());
  }
  CHECK(bits.size() == 3);
  CHECK(bits.at("bytes") == doctest::Approx(bits.at("characters")).epsilon(0.25));  // the text is ASCII
}

TEST_CASE("a choice keeps to the likeliest tokens and is the likeliest where nothing else is left") {
  const std::vector<float> logits{std::log(0.1f), std::log(0.5f), std::log(0.3f), std::log(0.1f)};
  const auto drawn = [&](const Sampling& s, std::int32_t never = -1) {
    std::vector<int> counts(logits.size());
    for (int i = 0; i < 1000; ++i) ++counts[static_cast<std::size_t>(choose(logits, s, (i + 0.5) / 1000, never))];
    return counts;
  };
  using Counts = std::vector<int>;
  CHECK(drawn({}) == Counts{100, 500, 300, 100});
  CHECK(drawn({}, 1) == Counts{200, 0, 600, 200});
  CHECK(drawn({.temperature = 0}) == Counts{0, 1000, 0, 0});
  CHECK(drawn({.temperature = 0}, 1) == Counts{0, 0, 1000, 0});
  CHECK(drawn({.top_k = 1}) == Counts{0, 1000, 0, 0});
  CHECK(drawn({.top_k = 2}) == Counts{0, 625, 375, 0});
  CHECK(drawn({.top_k = 9}) == Counts{100, 500, 300, 100});
  CHECK(drawn({.top_p = 0.01}) == Counts{0, 1000, 0, 0});
  CHECK(drawn({.top_p = 0.6}) == Counts{0, 625, 375, 0});
  CHECK(drawn({.top_k = 2, .top_p = 0.5}) == Counts{0, 1000, 0, 0});  // 0.5 of 0.8 is reached by the first
}

namespace {

// The carried states behind a batch, from states of `initial`.
TensorMap states_after(const Task& task, const Batch& batch, double initial, const std::string& backend) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const TaskGraph t = task.build(scope, batch);
  TensorMap inputs = initialize(scope.parameters(), 7);
  for (const auto& [name, tensor] : batch.inputs) inputs.emplace(name, tensor);
  for (const CarriedState& s : t.states) {
    graph.output("out." + s.name, s.out);
    inputs.emplace("state." + s.name, Tensor::filled(s.type, initial));
  }
  return evaluate(graph, *make_backend(backend), inputs);
}

}  // namespace

TEST_CASE("before the token that begins documents the state is zero, on every backend") {
  for (const char* cell : {"lstm", "gru", "mgu"}) {
    CAPTURE(cell);
    LanguageModelOptions o = small_language_options();
    o.model.cell = cell;
    o.model.layers = 2;
    o.steps = 30;  // longer than a line
    o.batch = 1;
    const auto plain = make_language_model(o, small_text(), "t");
    o.document_start = "\n";
    const auto documents = make_language_model(o, small_text(), "t");
    const Batch batch = documents->batch(Split::train, 0, 0, 1);
    // The same without what is before the last line's beginning: "\n" is token 0.
    const auto ids = batch.inputs.at("ids").values<std::int32_t>();
    std::int64_t last = o.steps - 1;
    while (last > 0 && ids[static_cast<std::size_t>(last)] != 0) --last;
    REQUIRE(last > 0);
    Batch line;
    for (const auto& [name, tensor] : batch.inputs) {
      Tensor part(DType::i32, {o.steps - last, 1});
      for (std::int64_t i = 0; i < part.elements(); ++i) part.set(i, tensor.at(last + i));
      line.inputs.emplace(name, part);
    }
    const TensorMap expected = states_after(*plain, line, 0, "reference");
    for (const std::string& backend : testing::computing_backends()) {
      const TensorMap got = states_after(*documents, batch, 1, backend);
      for (const auto& output : expected)
        for (std::int64_t i = 0; i < output.second.elements(); ++i)  // f32, some tens of steps of order 1
          CHECK(std::fabs(output.second.at(i) - got.at(output.first).at(i)) < 1e-5);
    }
  }
  LanguageModelOptions o = small_language_options();
  for (const char* bad : {"ab", "\t"}) {
    o.document_start = bad;
    CHECK_THROWS_WITH_AS(make_language_model(o, small_text(), "t"), doctest::Contains("must be one token"), Error);
  }
}

TEST_CASE("a model of documents trains and writes") {
  LanguageModelOptions o = small_language_options();
  o.document_start = "\n";
  const auto task = make_language_model(o, small_text(), "t");
  const auto backend = make_backend("cpu");
  Trainer trainer(task, *backend, small_training(40));
  const double before = trainer.evaluate(Split::test).loss;
  trainer.fit();
  CHECK(trainer.evaluate(Split::test).loss < before - 0.3);
  std::string text;
  generate(task->metadata(), trainer.parameters(), *backend, {.prompt = "\n", .length = 40},
           [&](std::string_view part) { text += part; });
  CHECK(text.size() == 40);
}

TEST_CASE("windows of training lie a stride apart, those of the test do not") {
  std::string csv;
  for (int i = 0; i < 100; ++i) csv += std::to_string(i % 7) + "\n";
  ForecastOptions o = plain_forecast();
  o.window = 5;
  o.batch = 1;
  const auto dense = make_forecast(o, csv, "t");
  o.stride = 4;
  const auto apart = make_forecast(o, csv, "t");
  CHECK(dense->n_batches(Split::train) == 65);  // 70 values, the first 5 have no window before them
  CHECK(apart->n_batches(Split::train) == 17);
  CHECK(apart->n_batches(Split::test) == dense->n_batches(Split::test));
  CHECK(apart->baselines(Split::test) == dense->baselines(Split::test));
  o.stride = 0;
  CHECK_THROWS_AS(make_forecast(o, csv, "t"), Error);
}

TEST_CASE("pooling is what it says, for sequences of different lengths") {
  // y [T=3,B=2,W=2] forwards; row 1 has one step, and zeros behind it.
  const Tensor y = Tensor::from<float>({3, 2, 2}, {1, -1, 5, 6, 2, -4, 0, 0, 6, -1, 0, 0});
  const Tensor lengths = Tensor::from<std::int32_t>({2}, {3, 1});
  const auto pool = [&](const char* how, bool bidirectional) {
    Graph graph;
    Scope scope(graph);
    const Value x = graph.input("y", y.type()), n = graph.input("lengths", lengths.type());
    graph.output("out", pooled(scope, x, how, bidirectional, n).output);
    TensorMap inputs{{"y", y}, {"lengths", lengths}};
    for (const ParameterSpec& p : scope.parameters()) inputs.emplace(p.name, Tensor(p.type));  // zeros: equal weights
    const TensorMap out = evaluate(graph, *make_backend("reference"), inputs);
    const auto values = out.at("out").values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  using Values = std::vector<float>;
  CHECK(pool("final", false) == Values{6, -1, 5, 6});
  CHECK(pool("final", true) == Values{6, -1, 5, 6});  // backwards half: at the first step
  CHECK(pool("mean", false) == Values{3, -2, 5, 6});
  CHECK(pool("max", false) == Values{6, -1, 5, 6});
  const Values attended = pool("attention", false);
  for (std::size_t i = 0; i < 4; ++i) CHECK(attended[i] == doctest::Approx(Values{3, -2, 5, 6}[i]).epsilon(1e-6));
}

TEST_CASE("a classifier learns with every pooling, and streams only what its last step decides") {
  const auto backend = make_backend("reference");
  for (const char* how : {"final", "mean", "max", "attention"}) {
    CAPTURE(how);
    ClassifyOptions o;
    o.model.hidden = 5;
    o.steps = 4;
    o.divide = 4;
    o.batch = 8;
    o.pooling = how;
    o.label_smoothing = 0.05;
    const auto task = make_classify(o, small_rows(), "small rows");
    Trainer trainer(task, *backend, small_training(80));
    const double before = trainer.evaluate(Split::test).loss;
    trainer.fit();
    const EvaluateResult r = trainer.evaluate(Split::test);
    CHECK(r.loss < before);
    CHECK(r.metrics.contains("f1_macro"));
    if (std::string(how) == "final") CHECK_NOTHROW(task_stream(task->metadata()));
    else CHECK_THROWS_WITH_AS(task_stream(task->metadata()), doctest::Contains("pooling"), Error);
  }
  ClassifyOptions o;
  o.steps = 4;
  o.pooling = "median";
  CHECK_THROWS_WITH_AS(Trainer(make_classify(o, small_rows(), "r"), *backend, small_training(1)),
                       doctest::Contains("Use one of final|mean|max|attention"), Error);
}

TEST_CASE("bad rows are refused with the rule") {
  ClassifyOptions o;
  o.steps = 3;
  CHECK_THROWS_WITH_AS(make_classify(o, "1,2,3,4,0\n", "r.csv"), doctest::Contains("cannot be divided"),
                       Error);
  o.steps = 2;
  CHECK_THROWS_WITH_AS(make_classify(o, "1,2,3,4,0\n1,2,3,4,\n", "r.csv"), doctest::Contains("line 2, column 5"),
                       Error);
  CHECK_THROWS_WITH_AS(make_classify(o, "7\n", "r.csv"), doctest::Contains("one column"), Error);
  CHECK_THROWS_WITH_AS(make_classify(o, "1,2,,4,1\n", "r.csv"), doctest::Contains("column 3"), Error);
}
