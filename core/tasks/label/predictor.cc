// SPDX-License-Identifier: Apache-2.0
// Label probabilities for the tokens of sentences.
#include <cmath>

#include "core/data/batch/buckets.h"
#include "core/data/file/lines.h"
#include "core/data/text/encoding.h"
#include "core/data/text/text.h"
#include "core/model/constants.h"
#include "core/tasks/common/example_parts.h"
#include "core/tasks/common/prediction_batches.h"
#include "core/tasks/common/split_buckets.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/label/network.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr std::string_view k_labeler = "Labeler";
constexpr std::size_t k_max_length = 4096;

std::string excess(std::size_t tokens) {
  if (tokens <= k_max_length) return {};
  return "a sentence may have at most " + std::to_string(k_max_length) + " tokens; got " + std::to_string(tokens);
}

// Returns p(label t of `labels` | all scores) [T,B]. The gradient of -log p(labels) with respect to the score of label
// k at step t is the marginal of k, minus 1 if k is the given label.
Value marginals(Value scores, Value labels, Value loss) {
  const Shape& s = scores.shape();  // [T,B,K]
  const std::vector<Value> wrt{scores};
  const Value gradient = differentiate(sum(loss), wrt)[0];
  const Value chosen = equal(iota(scores.graph(), s, 2), reshape(labels, {s[0], s[1], 1}));
  return reduce_sum(select(chosen, gradient, scalar_like(gradient, 0)), {2}) + 1.0;
}

}  // namespace

struct Labeler::State {
  State(const Metadata& metadata, const TensorMap& parameters, BackendHandle b)
      : backend(b), by_characters(get_text(metadata, "tokens") == "characters"),
        tokens(get_lexicon(metadata, "vocabulary")), lexicon(get_lexicon(metadata, "labels")),
        network(LabelNetwork::of(metadata, tokens, lexicon)), constants(constants_of(parameters)) {
    for (std::int32_t k = 0; k < lexicon.size(); ++k) labels.push_back(lexicon.text(k));
    program(padded_length(1), 1);  // checks early that metadata and parameters match
  }

  // ids i32 [T,B], lengths i32 [B] -> labels i32 [T,B], probabilities [T,B], with a CRF loss [B]
  std::shared_ptr<Program> program(std::int64_t steps, std::int64_t rows) {
    return programs.get({steps, rows}, [&] {
      Graph graph;
      Scope scope(graph, /*training=*/false);
      const Value ids = graph.input("ids", {DType::i32, {steps, rows}}),
                  lengths = graph.input("lengths", {DType::i32, {rows}});
      const Value logits = network.build(scope, ids, lengths), best = network.decode(scope, logits, lengths);
      graph.output("labels", best);
      if (network.crf) {
        const Crf field = network.field(scope);
        const Value loss = crf_loss(field, logits, best, lengths);
        graph.output("loss", loss);
        graph.output("probabilities", marginals(logits, best, loss));
      } else {
        graph.output("probabilities", reduce_max(softmax(logits), {2}));
      }
      return std::make_shared<Program>(*with_constants(graph, 2, constants, k_labeler), backend);
    });
  }

  void run(std::span<const Sentence> sentences, std::span<const std::size_t> items, std::int64_t steps,
           std::int64_t rows, std::vector<Result>& results) {
    Tensor ids(DType::i32, {steps, rows}), lengths(DType::i32, {rows});
    for (std::size_t b = 0; b < items.size(); ++b) {
      const Sentence& sentence = sentences[items[b]];
      std::vector<std::int32_t> column;
      for (const std::string& token : sentence) {
        column.push_back(tokens.id(token));
        results[items[b]].unknown += column.back() == tokens.size();
      }
      lengths.set(static_cast<std::int64_t>(b), static_cast<double>(sentence.size()));
      put_column(ids, static_cast<std::int64_t>(b), column);
    }
    TensorMap inputs;
    inputs.emplace("ids", std::move(ids));
    inputs.emplace("lengths", std::move(lengths));
    const TensorMap outputs = program(steps, rows)->run(inputs);
    const Tensor &best = outputs.at("labels"), &likely = outputs.at("probabilities");
    for (std::size_t b = 0; b < items.size(); ++b) {
      Result& result = results[items[b]];
      std::vector<float> given;
      if (network.crf) given.push_back(static_cast<float>(outputs.at("loss").at(static_cast<std::int64_t>(b))));
      double log_probability = network.crf ? -outputs.at("loss").at(static_cast<std::int64_t>(b)) : 0;
      for (std::size_t t = 0; t < sentences[items[b]].size(); ++t) {
        const std::int64_t at = static_cast<std::int64_t>(t) * rows + static_cast<std::int64_t>(b);
        given.push_back(static_cast<float>(likely.at(at)));
        result.labels.push_back(lexicon.text(static_cast<std::int32_t>(best.at(at))));
        // A marginal is a difference; rounding may move it outside [0,1].
        result.probabilities.push_back(std::clamp(likely.at(at), 0.0, 1.0));
        if (!network.crf) log_probability += std::log(likely.at(at));
      }
      require_finite(k_labeler, items[b], given);
      result.probability = std::min(std::exp(log_probability), 1.0);
    }
  }

  BackendHandle backend;
  bool by_characters;
  Lexicon tokens, lexicon;
  std::vector<std::string> labels;
  LabelNetwork network;
  Constants constants;
  ProgramCache<std::pair<std::int64_t, std::int64_t>> programs;  // by T and B
};

Labeler::Labeler(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend) {
  require_task(metadata, "label", k_labeler);
  state_ = hidden_state<State>(metadata, parameters, backend);
}

const std::vector<std::string>& Labeler::labels() const { return state_->labels; }

Labeler::Sentence Labeler::cut(std::string_view line) const {
  require_text(line, k_labeler);
  if (!state_->by_characters) return words_of(line);
  Sentence characters;
  for (const char32_t c : decode_utf8(line, k_labeler.data())) append_utf8(characters.emplace_back(), c);
  return characters;
}

void Labeler::check(const Sentence& sentence) const {
  if (const std::string what = excess(sentence.size()); !what.empty()) throw Error(ErrorKind::usage, k_labeler, what);
}

std::vector<Labeler::Result> Labeler::predict(std::span<const Sentence> sentences) {
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    if (const std::string what = excess(sentences[i].size()); !what.empty()) refuse_input(k_labeler, i, what);
    if (!sentences[i].empty())
      by_length[padded_length(std::ssize(sentences[i]))].push_back(i);
  }
  std::vector<Result> results(sentences.size());
  for (const auto& [steps, items] : by_length)
    for_each_batch(items, prediction_rows(steps),
                   [&, length = steps](std::span<const std::size_t> part, std::int64_t rows) {
                     state_->run(sentences, part, length, rows, results);
                   });
  return results;
}

std::vector<std::string> Labeler::label(std::span<const std::string> tokens) {
  const Sentence one[] = {Sentence(tokens.begin(), tokens.end())};
  check(one[0]);
  return std::move(predict(one)[0].labels);
}

namespace {

std::vector<Prediction> label_inputs(Labeler& labeler, std::span<const PredictInput> inputs, const PredictOptions&) {
  std::vector<Labeler::Sentence> sentences;
  for (const PredictInput& input : inputs) {
    const auto* tokens = std::get_if<Labeler::Sentence>(&input);
    sentences.push_back(tokens ? *tokens : labeler.cut(texts_in({&input, 1})[0]));
  }
  return predictions_of(labeler.predict(sentences), &Labeler::Result::labels);
}

void label_examples(const ExampleRequest& r, Examples& examples) {
  Labeler labeler(r.metadata, r.parameters, r.backend);
  ConfusionCount confusion(labeler.labels());
  Chosen<SentenceExample> chosen(r.most);
  const auto read = [](std::string_view record) {
    SentenceExample s;
    lines_of(record)([&](const Line& line) {
      const std::size_t tab = line.text.find('\t');
      if (tab == std::string_view::npos) return;
      s.tokens.emplace_back(line.text.substr(0, tab));
      s.truth.emplace_back(line.text.substr(tab + 1));
    });
    return s;
  };
  for_each_batch_of<SentenceExample>(r.task, examples.split, read, [&](std::vector<SentenceExample>& batch) {
    std::vector<Labeler::Sentence> sentences;
    for (const SentenceExample& s : batch) sentences.push_back(s.tokens);
    const std::vector<Labeler::Result> results = labeler.predict(sentences);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      SentenceExample& s = batch[i];
      s.predicted = results[i].labels;
      s.probabilities = results[i].probabilities;
      for (std::size_t t = 0; t < s.truth.size(); ++t) confusion.add(s.truth[t], s.predicted[t]);
      const bool right = s.predicted == s.truth;
      chosen.add(std::move(s), right);
    }
  });
  examples.sentences = chosen.take();
  examples.confusion = std::move(confusion.result);
}

}  // namespace

const PredictionRow label_prediction_row{
    "lines or lists of tokens -> lists of labels",
    PredictorWith<Labeler, InputForm::tokens, label_inputs>::make, label_examples};

}  // namespace unroll
