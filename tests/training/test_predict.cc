// SPDX-License-Identifier: Apache-2.0
// Predictions of many inputs at once: those of each by itself, with probabilities that a second way of counting gives.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/training/small_tasks.h"
#include "unroll/model/stream.h"
#include "unroll/support/error.h"
#include "unroll/tasks/examples.h"
#include "unroll/tasks/predict.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// Lines of 0 to 39 words, some of them unknown.
std::vector<std::string> mixed_lines(int n = 90) {
  std::vector<std::string> lines;
  for (int i = 0; i < n; ++i) {
    std::string line;
    for (int t = 0; t < i * 7 % 40; ++t) line += (t ? " w" : "w") + std::to_string((i * 5 + t * 3) % 9);
    lines.push_back(line);
  }
  return lines;
}

Trained labels_of_words(const char* output) {
  std::string text;
  for (int i = 0; i < 50; ++i, text += "\n")
    for (int t = 0; t <= i % 7; ++t) {
      const int word = (i * 5 + t * 3) % 6;
      text += "w" + std::to_string(word) + "\t" + "abc"[(word + t) % 3] + "\n";
    }
  LabelOptions o;
  o.model.hidden = 6;
  o.embedding = 4;
  o.batch = 8;
  o.output = output;
  return Trained(make_label(o, text, "t"));
}

// Products of one row and of many add up in another order: a few hundred roundings of 2^-24 each.
bool close(double a, double b) { return std::fabs(a - b) <= 3e-5 * std::max(1.0, std::fabs(a)); }
bool close(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) { return close(x, y); });
}

template <class Result>
void check_same(const std::vector<Result>& many, const std::vector<Result>& single, const auto& equal) {
  REQUIRE(many.size() == single.size());
  for (std::size_t i = 0; i < many.size(); ++i) {
    CAPTURE(i);
    CHECK(equal(many[i], single[i]));
  }
}

}  // namespace

TEST_CASE("a batch of sentences has the labels and probabilities of each sentence by itself, within rounding") {
  for (const char* output : {"softmax", "crf"}) {
    CAPTURE(output);
    Trained m = labels_of_words(output);
    Labeler labeler(m.metadata, m.parameters, *m.backend);
    std::vector<Labeler::Sentence> sentences;
    for (const std::string& line : mixed_lines()) sentences.push_back(labeler.cut(line));
    const auto many = labeler.predict(sentences);
    std::vector<Labeler::Result> single;
    for (const auto& sentence : sentences) single.push_back(labeler.predict({&sentence, 1})[0]);
    check_same(many, single, [](const Labeler::Result& a, const Labeler::Result& b) {
      return a.labels == b.labels && close(a.probabilities, b.probabilities) && close(a.probability, b.probability) &&
             a.unknown == b.unknown;
    });
    CHECK(many[0].labels.empty());
    CHECK(many[1].labels.size() == 7);
    std::int64_t unknown = 0;
    for (const auto& r : many) unknown += r.unknown;
    CHECK(unknown > 0);
    sentences.emplace_back(4097, "w");
    CHECK_THROWS_WITH_AS(labeler.predict(sentences), doctest::Contains("input 90: a sentence"), Error);
  }
}

TEST_CASE("a CRF's marginals lie between the probability of the whole sequence and 1, and are it for one token") {
  Trained m = labels_of_words("crf");
  Labeler labeler(m.metadata, m.parameters, *m.backend);
  const std::vector<Labeler::Sentence> sentence{{"w1", "w4", "w2"}};
  const Labeler::Result result = labeler.predict(sentence)[0];
  REQUIRE(result.labels.size() == 3);
  for (const double p : result.probabilities) {
    CHECK(p >= result.probability - 1e-6);
    CHECK(p <= 1);
  }
  CHECK(result.probability > 1.0 / 27 - 1e-6);  // the best of 27 sequences
  const std::vector<Labeler::Sentence> one{{"w1"}};
  const Labeler::Result single = labeler.predict(one)[0];
  CHECK(single.probabilities[0] == doctest::Approx(single.probability).epsilon(1e-5));
}

TEST_CASE("a batch of documents has the labels of each by itself; probabilities fall and sum to 1") {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += std::string(1, "xyz"[i % 3]) + "\tw" + std::to_string(i % 7) + " here. And more w1.\n";
  DocumentOptions o;
  o.model.hidden = 5;
  o.embedding = 4;
  const Trained m(make_document(o, text, "t"));
  DocumentClassifier reader(m.metadata, m.parameters, *m.backend);
  std::vector<std::string> texts = mixed_lines();
  for (std::size_t i = 0; i < texts.size(); i += 3) texts[i] += ". And here. w1 w2";
  const auto many = reader.predict(texts, 0);
  std::vector<DocumentClassifier::Result> single;
  for (const std::string& one : texts) single.push_back(reader.predict({&one, 1}, 0)[0]);
  check_same(many, single, [](const auto& a, const auto& b) {
    bool same = a.labels.size() == b.labels.size() && a.words == b.words && a.unknown == b.unknown;
    for (std::size_t k = 0; same && k < a.labels.size(); ++k)
      same = a.labels[k].label == b.labels[k].label && close(a.labels[k].probability, b.labels[k].probability);
    return same;
  });
  double total = 0;
  for (const ScoredLabel& l : many[1].labels) total += l.probability;
  CHECK(total == doctest::Approx(1));
  REQUIRE(many[1].labels.size() == 3);
  CHECK(many[1].labels[0].probability >= many[1].labels[2].probability);
  CHECK(reader.predict(texts, 2)[1].labels.size() == 2);
  const std::vector<std::string> blank{" . "};
  CHECK(reader.predict(blank)[0].labels.empty());
}

TEST_CASE("a batch of sources has the targets of each by itself, greedily and with a beam; attention sums to 1") {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    const std::string word = std::to_string(i * 37 % 1000);
    text += word + "\t" + std::string(word.rbegin(), word.rend()) + "\n";
  }
  TranslateOptions o;
  o.model.hidden = 16;
  o.model.cell = "gru";
  o.embedding = 8;
  const Trained m(make_translate(o, text, "t"), 150);
  Translator translator(m.metadata, m.parameters, *m.backend);
  std::vector<std::string> sources;
  for (int i = 0; i < 70; ++i)
    sources.emplace_back(static_cast<std::size_t>(i % 9), static_cast<char>('0' + i % 10));
  for (const DecodeOptions& d : {DecodeOptions{}, DecodeOptions{.beam = 3, .length_penalty = 0.6}}) {
    const auto many = translator.predict(sources, d);
    std::vector<Translator::Result> single;
    for (const std::string& one : sources) single.push_back(translator.predict({&one, 1}, d)[0]);
    check_same(many, single, [](const auto& a, const auto& b) {
      return a.text == b.text && close(a.log_probability, b.log_probability) && a.tokens == b.tokens;
    });
    CHECK(many[0].text.empty());
    CHECK(many[1].log_probability < 0);
  }
  const Translator::Attention a = translator.attention("123", "321");
  REQUIRE(a.source.size() == 3);
  REQUIRE(a.target == std::vector<std::string>{"3", "2", "1", ""});
  REQUIRE(a.weights.size() == 12);
  for (std::size_t t = 0; t < 4; ++t)
    CHECK(a.weights[t * 3] + a.weights[t * 3 + 1] + a.weights[t * 3 + 2] == doctest::Approx(1).epsilon(1e-5));
}

TEST_CASE("a line's log probability is what a stream gives token by token, also over windows and in a batch") {
  LanguageModelOptions o = small_language_options();
  for (const char* start : {"", "\n"}) {
    CAPTURE(start);
    o.document_start = start;
    const Trained m(small_language_model(o));
    TextScorer scorer(m.metadata, m.parameters, *m.backend);
    std::vector<std::string> lines{"the cat", "", "sat", "t", "mat \xC3\xA9 cat"};
    lines.emplace_back();
    for (int i = 0; i < 120; ++i) lines.back() += "cat sat ";  // 960 tokens: four windows
    for (int i = 0; i < 40; ++i) lines.push_back("mat " + std::to_string(i));
    const auto many = scorer.predict(lines);
    for (const std::size_t i : {0u, 2u, 3u, 4u, 5u, 20u}) {
      CAPTURE(i);
      const TextScorer::Result one = scorer.predict({&lines[i], 1})[0];
      CHECK(one.log_probability == doctest::Approx(many[i].log_probability).epsilon(1e-5));
      CHECK(one.scored == one.tokens);
    }
    CHECK(many[1].tokens == 0);
    CHECK(std::isnan(many[1].perplexity()));
    CHECK(many[4].unknown == 1);
    CHECK(unknown_tokens(m.metadata, lines[4]) == std::vector<std::string>{"\xC3\xA9"});
    CHECK(many[5].tokens == 960);

    Stream stream(*m.backend, task_stream(m.metadata), m.parameters);
    const std::string& text = m.metadata.at("vocabulary");  // characters by number
    std::vector<float> logits(static_cast<std::size_t>(stream.outputs()));
    double total = 0;
    std::string before = "\n";
    for (const char c : lines[0]) {
      const auto id = static_cast<std::int32_t>(text.find(before));
      REQUIRE(stream.step({&id, 1}, logits));
      double sum = 0;
      for (const float x : logits) sum += std::exp(static_cast<double>(x));
      total += static_cast<double>(logits[text.find(c)]) - std::log(sum);
      before = c;
    }
    CHECK(many[0].log_probability == doctest::Approx(total).epsilon(1e-5));
    CHECK(many[0].perplexity() == doctest::Approx(std::exp(-total / 7)).epsilon(1e-5));
    CHECK(many[0].bits_per_character() == doctest::Approx(-total / 7 / std::log(2.0)).epsilon(1e-5));
  }
}

TEST_CASE("a classifier's labels give the accuracy of the task's own evaluation, for every pooling") {
  for (const char* pooling : {"final", "attention"}) {
    CAPTURE(pooling);
    ClassifyOptions o;
    o.model.hidden = 5;
    o.model.bidirectional = true;
    o.pooling = pooling;
    o.steps = 4;
    o.divide = 4;
    o.batch = 7;
    const auto task = make_classify(o, small_rows(), "small rows");
    Trained m(task, 12);
    Trainer trainer(task, *m.backend, small_training(1));
    trainer.set_parameters(m.parameters);
    Classifier classifier(m.metadata, m.parameters, *m.backend);
    REQUIRE(classifier.labels() == std::vector<std::string>{"0", "1"});
    std::vector<Classifier::Row> rows;
    std::vector<std::string> truth;
    for (std::int64_t i = 0; i < task->n_batches(Split::test); ++i) {
      const Batch batch = task->batch(Split::test, 0, 0, i);
      const Tensor &x = batch.inputs.at("x"), &labels = batch.inputs.at("labels");
      const std::int64_t B = labels.elements();
      for (std::int64_t b = 0; b < B; ++b) {
        Classifier::Row& row = rows.emplace_back();
        for (std::int64_t t = 0; t < 4; ++t) row.push_back(x.at(t * B + b) * 4);
        truth.push_back(std::to_string(static_cast<int>(labels.at(b))));
      }
    }
    const auto many = classifier.predict(rows, 0);
    double right = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      right += many[i][0].label == truth[i];
      CHECK(many[i][0].probability + many[i][1].probability == doctest::Approx(1));
      const auto one = classifier.predict({&rows[i], 1}, 0)[0];
      CHECK(one[0].label == many[i][0].label);
      CHECK(close(one[0].probability, many[i][0].probability));
    }
    const Examples e = examples_of(*task, m.metadata, m.parameters, *m.backend, Split::test, 1000);
    CHECK(e.classes.size() == rows.size());
    CHECK(static_cast<double>(e.confusion.at(0, 0) + e.confusion.at(1, 1)) == right);
    CHECK(right / static_cast<double>(rows.size()) ==
          doctest::Approx(trainer.evaluate(Split::test).metrics.at("accuracy")).epsilon(1e-6));
    rows[0].pop_back();
    CHECK_THROWS_WITH_AS(classifier.predict(rows), doctest::Contains("input 0: expected 4 steps of 1 value"), Error);
  }
}

TEST_CASE("a forecaster's errors are those of the task's own evaluation, of levels and of differences") {
  for (const ForecastFormCase& form : k_forecast_forms) {
    CAPTURE(form.difference);
    CAPTURE(form.scale);
    std::vector<double> values;  // [n, 2]
    std::string csv = "a,b\n";
    for (int t = 0; t < 120; ++t) {
      values.push_back(100 + 0.5 * t + 10 * std::sin(t * 0.5));
      values.push_back(std::cos(t * 0.3) * (t % 5));
      csv += std::to_string(values[values.size() - 2]) + "," + std::to_string(values.back()) + "\n";
    }
    ForecastOptions o;
    o.model.hidden = 6;
    o.columns = {"a", "b"};
    o.window = 8;
    o.horizon = 3;
    o.period = 4;
    form.set(o);
    o.model.bidirectional = form.autoregression;
    const auto task = make_forecast(o, csv, "t");
    Trained m(task, 20);
    Trainer trainer(task, *m.backend, small_training(1));
    trainer.set_parameters(m.parameters);
    Forecaster forecaster(m.metadata, m.parameters, *m.backend);
    CHECK(forecaster.columns() == std::vector<std::string>{"a", "b"});
    const std::string lags = form.difference;
    const int depth = (lags.starts_with("first") ? 1 : 0) + (lags.ends_with("seasonal") ? 4 : 0) +
                      (lags.ends_with("2") ? 2 : 0);
    CHECK(forecaster.history() == 8 + depth);
    // The test set is the last fifth, 24 values: windows of 3 targets begin at 96 to 117.
    std::vector<Forecaster::Values> histories;
    for (std::size_t t = 96; t <= 117; ++t)
      histories.emplace_back(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(2 * t));
    const auto many = forecaster.predict(histories);
    double error = 0;
    for (std::size_t i = 0; i < many.size(); ++i) {
      REQUIRE(many[i].size() == 6);
      for (std::size_t k = 0; k < 6; ++k) error += std::fabs(many[i][k] - values[histories[i].size() + k]);
      const auto one = forecaster.predict({&histories[i], 1})[0];
      for (std::size_t k = 0; k < 6; ++k) CHECK(close(one[k], many[i][k]));
    }
    CHECK(error / static_cast<double>(6 * many.size()) ==
          doctest::Approx(trainer.evaluate(Split::test).metrics.at("mae")).epsilon(1e-4));
    // Beyond the horizon: what follows when the forecasts are appended to the history.
    Forecaster::Values fed = histories[0];
    fed.insert(fed.end(), many[0].begin(), many[0].end());
    const auto further = forecaster.predict({&histories[0], 1}, 5)[0], next = forecaster.predict({&fed, 1})[0];
    REQUIRE(further.size() == 10);
    for (std::size_t k = 0; k < 4; ++k) CHECK(close(further[6 + k], next[k]));
    // Examples of the test set: windows one after the other, each value as one of the forecasts above.
    const Examples e = examples_of(*task, m.metadata, m.parameters, *m.backend, Split::test, 1000);
    REQUIRE(e.forecasts.size() == 2);
    REQUIRE(e.forecasts[0].predicted.size() == 24);
    for (std::size_t i = 0; i < 24; ++i) {
      const std::size_t row = 96 + i, window = i / 3 * 3;
      CHECK(e.forecasts[1].at[i] == std::to_string(row));
      CHECK(e.forecasts[1].ahead[i] == static_cast<std::int64_t>(i % 3 + 1));
      CHECK(e.forecasts[1].actual[i] == doctest::Approx(values[2 * row + 1]).epsilon(1e-4));
      CHECK(close(e.forecasts[1].predicted[i], many[window][i % 3 * 2 + 1]));
      CHECK(e.forecasts[1].baselines.at("seasonal_naive")[i] ==
            doctest::Approx(values[2 * (row - 4) + 1]).epsilon(1e-4));
    }
    histories[1].resize(2 * 7);
    CHECK_THROWS_WITH_AS(forecaster.predict(histories), doctest::Contains("input 1: the model reads"), Error);
  }
}

TEST_CASE("examples of a split: confusion counts every token or document once, and gives the evaluation's accuracy") {
  Trained m = labels_of_words("softmax");
  Trainer trainer(m.task, *m.backend, small_training(1));
  trainer.set_parameters(m.parameters);
  const Examples e = examples_of(*m.task, m.metadata, m.parameters, *m.backend, Split::test, 4);
  CHECK(e.task == "label");
  REQUIRE(e.sentences.size() == 4);
  CHECK(e.sentences[0].tokens.size() == e.sentences[0].predicted.size());
  CHECK(e.sentences[0].tokens.size() == e.sentences[0].truth.size());
  REQUIRE(e.confusion.labels.size() == 3);
  double right = 0, all = 0;
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t p = 0; p < 3; ++p) {
      all += static_cast<double>(e.confusion.at(t, p));
      right += t == p ? static_cast<double>(e.confusion.at(t, p)) : 0;
    }
  REQUIRE(all > 0);
  CHECK(right / all == doctest::Approx(trainer.evaluate(Split::test).metrics.at("accuracy")).epsilon(1e-6));
}

TEST_CASE("a model of another task is refused by name") {
  const Trained m(small_language_model(), 1);
  CHECK_THROWS_WITH_AS(Labeler(m.metadata, m.parameters, *m.backend), doctest::Contains("'language_model'"), Error);
  CHECK_THROWS_WITH_AS(Translator(m.metadata, m.parameters, *m.backend), doctest::Contains("expected 'translate'"),
                       Error);
}

TEST_CASE("a predictor of any task gives what the class of the task gives") {
  const Trained classes(small_classify(), 12), labels = labels_of_words("softmax");
  const auto of_rows = make_predictor(classes.metadata, classes.parameters, *classes.backend);
  REQUIRE(of_rows->reads() == InputForm::numbers);
  const std::vector<Classifier::Row> rows{{0, 1, 2, 3}, {4, 3, 2, 1}};
  const auto ranked = Classifier(classes.metadata, classes.parameters, *classes.backend).predict(rows, 2);
  const std::vector<PredictInput> inputs(rows.begin(), rows.end());
  const std::vector<Prediction> predictions = of_rows->predict(inputs, {.top_k = 2});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& given = std::get<std::vector<ScoredLabel>>(predictions.at(i));
    REQUIRE(given.size() == 2);
    CHECK(given[0].label == ranked[i][0].label);
    CHECK(given[1].probability == ranked[i][1].probability);
  }
  const auto of_sentences = make_predictor(labels.metadata, labels.parameters, *labels.backend);
  const PredictInput mixed[] = {std::string("w1 w2"), std::vector<std::string>{"w1", "w2"}};
  const std::vector<Prediction> words = of_sentences->predict(mixed);
  CHECK(std::get<std::vector<std::string>>(words.at(0)).size() == 2);
  CHECK(words.at(0).index() == words.at(1).index());
  CHECK(std::get<std::vector<std::string>>(words[0]) == std::get<std::vector<std::string>>(words[1]));
}

TEST_CASE("a predictor refuses inputs of another form, and a model without a task") {
  const Trained m(small_classify(), 1);
  const PredictInput inputs[] = {Classifier::Row{0, 1, 2, 3}, std::string("a text")};
  CHECK_THROWS_WITH_AS(make_predictor(m.metadata, m.parameters, *m.backend)->predict(inputs),
                       doctest::Contains("input 1: expected numbers"), Error);
  Metadata other = m.metadata;
  other["task"] = "paint";
  CHECK_THROWS_WITH_AS(make_predictor(other, m.parameters, *m.backend), doctest::Contains("unknown task 'paint'"),
                       Error);
  for (const auto& [task, form] : prediction_forms()) CHECK(form.find(" -> ") != std::string::npos);
}
