// SPDX-License-Identifier: Apache-2.0
// The network of a trained task gives on tensors what the predictors give on the user's data.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/training/small_tasks.h"
#include "unroll/model/stream.h"
#include "unroll/support/error.h"
#include "unroll/tasks/inference.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

TensorMap run(const Trained& m, const TensorMap& inputs) {
  const Inference inference = task_inference(m.metadata);
  bind_sizes(inference, inputs);
  const TensorMap outputs = Model(*m.backend, inference.network, m.parameters).run(inputs);
  const auto sizes = bind_sizes(inference, inputs);
  REQUIRE(outputs.size() == inference.outputs.size());
  for (const TensorSpec& spec : inference.outputs) {
    CAPTURE(spec.name);
    CHECK(outputs.at(spec.name).type() == Type{spec.dtype, shape_of(spec, sizes)});
  }
  return outputs;
}

// Inputs are scaled in f32 here and in f64 by the predictors; a few hundred roundings of 2^-24 each.
constexpr double k_tolerance = 3e-5;

Tensor ids_of(Shape shape, const std::vector<std::int32_t>& ids) { return Tensor::from<std::int32_t>(shape, ids); }

}  // namespace

TEST_CASE("the network of a classifier gives its probabilities, divided and standardized") {
  for (const bool normalize : {false, true}) {
    CAPTURE(normalize);
    ClassifyOptions o;
    o.model.hidden = 5;
    o.model.bidirectional = true;
    o.pooling = "attention";
    o.steps = 4;
    o.divide = normalize ? 1 : 4;
    o.normalize = normalize;
    const Trained m(make_classify(o, small_rows(), "small rows"), 12);
    const std::vector<Classifier::Row> rows{{0, 1, 2, 3}, {4, 3, 2, 1}, {2, 2.5, 3, 9}};
    Tensor x(DType::f32, {4, 3, 1});
    for (std::int64_t b = 0; b < 3; ++b)
      for (std::int64_t t = 0; t < 4; ++t)
        x.set(t * 3 + b, rows[static_cast<std::size_t>(b)][static_cast<std::size_t>(t)]);
    const TensorMap outputs = run(m, {{"x", x}});
    const auto ranked = Classifier(m.metadata, m.parameters, *m.backend).predict(rows, 0);
    for (std::int64_t b = 0; b < 3; ++b)
      for (const ScoredLabel& l : ranked[static_cast<std::size_t>(b)])
        CHECK(std::fabs(outputs.at("probabilities").at(b * 2 + std::stoi(l.label)) - l.probability) <= k_tolerance);
  }
}

TEST_CASE("the network of a forecaster gives its forecasts in the units of the columns, of levels and of changes") {
  for (const ForecastFormCase& form : k_forecast_forms) {
    CAPTURE(form.difference);
    CAPTURE(form.scale);
    std::string csv = "a,b\n";
    std::vector<double> values;
    for (int t = 0; t < 90; ++t) {
      values.push_back(10 + 0.5 * t);
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
    const Trained m(make_forecast(o, csv, "t"), 20);
    Forecaster forecaster(m.metadata, m.parameters, *m.backend);
    const std::int64_t T = forecaster.history();
    std::vector<Forecaster::Values> histories;
    Tensor x(DType::f32, {T, 2, 2});
    for (std::int64_t b = 0; b < 2; ++b) {
      const std::int64_t first = 2 * (11 + 30 * b);
      histories.emplace_back(values.begin() + first, values.begin() + first + 2 * T);
      for (std::int64_t i = 0; i < 2 * T; ++i)
        x.set(i / 2 * 4 + b * 2 + i % 2, histories.back()[static_cast<std::size_t>(i)]);
    }
    const TensorMap outputs = run(m, {{"x", x}});
    const auto forecasts = forecaster.predict(histories);
    for (std::int64_t i = 0; i < 12; ++i) {
      const double expected = forecasts[static_cast<std::size_t>(i / 6)][static_cast<std::size_t>(i % 6)];
      CHECK(std::fabs(outputs.at("forecast").at(i) - expected) <= k_tolerance * std::max(1.0, std::fabs(expected)));
    }
  }
}

TEST_CASE("the network of a language model gives the logits of its stream, and goes on from its states") {
  const Trained m(small_language_model());
  Stream stream(*m.backend, task_stream(m.metadata), m.parameters);
  const auto V = static_cast<std::size_t>(stream.outputs());
  const Inference inference = task_inference(m.metadata);
  TensorMap state;
  for (const std::string& name : inference.states) state.emplace(name, Tensor(DType::f32, {1, 1, 6}));
  std::vector<float> expected(V);
  for (int part = 0; part < 2; ++part) {
    TensorMap inputs = state;
    inputs.emplace("ids", ids_of({3, 1}, {1, 2, 5}));
    TensorMap outputs = run(m, inputs);
    for (std::size_t t = 0; t < 3; ++t) {
      const std::int32_t id = inputs.at("ids").values<std::int32_t>()[t];
      REQUIRE(stream.step({&id, 1}, expected));
      for (std::size_t v = 0; v < V; ++v)
        CHECK(std::fabs(outputs.at("logits").values<float>()[t * V + v] - expected[v]) <= k_tolerance);
    }
    for (const std::string& name : inference.states) state.at(name) = outputs.at(name);
  }
}

TEST_CASE("the network of a labeler gives its labels and probabilities, or the scores of its CRF") {
  for (const char* output : {"softmax", "crf"}) {
    CAPTURE(output);
    LabelOptions o;
    o.model.hidden = 6;
    o.embedding = 4;
    o.output = output;
    o.min_count = 1;
    const Trained m(make_label(o, "a\tX\nb\tY\n\nb\tX\nc\tZ\na\tY\n\nc\tX\nb\tY\n\na\tX\nb\tZ\n\nc\tZ\n", "t"));
    Labeler labeler(m.metadata, m.parameters, *m.backend);
    const std::vector<Labeler::Sentence> sentences{{"a", "b", "c"}, {"b", "b"}};
    std::vector<std::int32_t> ids(6);
    const std::string& words = m.metadata.at("vocabulary");  // one a line
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t t = 0; t < sentences[b].size(); ++t)
        ids[t * 2 + b] = static_cast<std::int32_t>(words.find(sentences[b][t]) / 2);
    const TensorMap outputs = run(m, {{"ids", ids_of({3, 2}, ids)}, {"lengths", ids_of({2}, {3, 2})}});
    const auto results = labeler.predict(sentences);
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t t = 0; t < sentences[b].size(); ++t) {
        const auto k = static_cast<std::size_t>(outputs.at("labels").values<std::int32_t>()[t * 2 + b]);
        CHECK(labeler.labels()[k] == results[b].labels[t]);
        if (outputs.contains("probabilities"))
          CHECK(std::fabs(outputs.at("probabilities").values<float>()[(t * 2 + b) * 3 + k] -
                          results[b].probabilities[t]) <= k_tolerance);
      }
    CHECK(outputs.contains("scores") == (std::string(output) == "crf"));
  }
}

TEST_CASE("the network of documents gives probabilities of every label, and that of translation those of every token") {
  std::string text;
  for (int i = 0; i < 30; ++i) text += std::string(1, "xyz"[i % 3]) + "\tw" + std::to_string(i % 3) + " w1. And w2.\n";
  DocumentOptions documents;
  documents.model.hidden = 5;
  documents.embedding = 4;
  const Trained reader(make_document(documents, text, "t"), 5);
  const TensorMap labels = run(reader, {{"ids", ids_of({2, 4}, {0, 1, 1, 0, 2, 0, 0, 0})},
                                        {"words", ids_of({4}, {2, 1, 1, 0})},
                                        {"sentences", ids_of({2}, {2, 1})}});
  for (std::int64_t b = 0; b < 2; ++b) {
    double total = 0;
    for (std::int64_t k = 0; k < 3; ++k) total += labels.at("probabilities").at(b * 3 + k);
    CHECK(total == doctest::Approx(1));
  }

  TranslateOptions lines;
  lines.model.hidden = 6;
  lines.embedding = 4;
  const Trained m(make_translate(lines, "ab\tba\nba\tab\nab\tba\nba\tab\nab\tba\nba\tab\nab\tba\nba\tab\n", "t"), 5);
  const std::int64_t V = task_inference(m.metadata).outputs[0].axes[2].size;
  const auto end = static_cast<std::int32_t>(V - 1);
  const TensorMap scores = run(m, {{"source", ids_of({2, 1}, {0, 1})},
                                   {"source_lengths", ids_of({1}, {2})},
                                   {"target", ids_of({3, 1}, {end, 1, 0})}});
  // "ab" has the ids 0 and 1 on both sides: what the decoder reads is the end, b, a, and it scores b, a and the end.
  const Tensor& logs = scores.at("log_probabilities");
  const double total = logs.at(1) + logs.at(V) + logs.at(2 * V + end);
  Translator translator(m.metadata, m.parameters, *m.backend);
  const std::string source[] = {"ab"};
  const Translator::Result best = translator.predict(source, {.beam = 8})[0];
  CHECK(best.log_probability >= total - k_tolerance);
  if (best.text == "ba") CHECK(best.log_probability == doctest::Approx(total).epsilon(1e-4));
}

TEST_CASE("a sequence without states starts from zeros") {
  const Trained m(small_language_model(), 5);
  const Inference inference = task_inference(m.metadata);
  const TensorMap ids{{"ids", Tensor(DType::i32, {3, 2})}};
  const TensorMap zeros = zero_states(inference, ids);
  REQUIRE(zeros.size() == inference.states.size());
  TensorMap with_states = ids;
  for (const auto& [name, tensor] : zeros) {
    CHECK(tensor.type() == Type{DType::f32, {1, 2, 6}});
    with_states.insert_or_assign(name, tensor);
  }
  CHECK(zero_states(inference, with_states).empty());
  CHECK_THROWS_WITH_AS(zero_states(inference, {}), doctest::Contains("'ids' i32[T,B] is missing"), Error);
}

TEST_CASE("inputs that do not fit are refused, with the name and the expected type") {
  const Inference inference = task_inference(Trained(small_language_model(), 1).metadata);
  const auto refused = [&](const TensorMap& inputs, const char* message) {
    CHECK_THROWS_WITH_AS(bind_sizes(inference, inputs), doctest::Contains(message), Error);
  };
  const Tensor ids(DType::i32, {3, 2});
  refused({}, "'ids' i32[T,B] is missing");
  refused({{"ids", ids}, {"idz", ids}}, "there is no input 'idz'");
  refused({{"ids", Tensor(DType::f32, {3, 2})}}, "[ids] expected i32[T,B], got f32[3,2]");
  refused({{"ids", Tensor(DType::i32, {3})}}, "[ids] expected i32[T,B], got i32[3]");
  refused({{"ids", ids}, {"state.0", Tensor(DType::f32, {1, 3, 6})}},
          "expected f32[1,B,6] with B = 2 as in another input, got f32[1,3,6]");
  CHECK_THROWS_WITH_AS(task_inference({{"task", "dance"}}), doctest::Contains("unknown task 'dance'"), Error);
}
