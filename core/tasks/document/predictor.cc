// SPDX-License-Identifier: Apache-2.0
// Label probabilities for documents.
#include "core/data/batch/buckets.h"
#include "core/data/text/encoding.h"
#include "core/model/constants.h"
#include "core/tasks/common/example_parts.h"
#include "core/tasks/common/prediction_batches.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/document/network.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr std::string_view k_document_reader = "DocumentClassifier";

}  // namespace

struct DocumentClassifier::State {
  State(const Metadata& metadata, const TensorMap& parameters, BackendHandle b)
      : backend(b), words(get_lexicon(metadata, "vocabulary")), lexicon(get_lexicon(metadata, "labels")),
        network(DocumentNetwork::of(metadata, words, lexicon)), constants(constants_of(parameters)) {
    for (std::int32_t k = 0; k < lexicon.size(); ++k) labels.push_back(lexicon.text(k));
    program({padded_length(1), padded_length(1), 1});  // checks early that metadata and parameters match
  }

  struct Size {
    std::int64_t sentences, words, rows;  // S, W, B
    auto operator<=>(const Size&) const = default;
  };
  // ids i32 [W,S*B], words i32 [S*B], sentences i32 [B] -> probabilities [B,K]
  std::shared_ptr<Program> program(const Size& z) {
    return programs.get(z, [&] {
      Graph graph;
      graph.output("probabilities", softmax(build(graph, z).logits));
      return std::make_shared<Program>(*with_constants(graph, 3, constants, k_document_reader), backend);
    });
  }
  DocumentNetwork::Outputs build(Graph& graph, const Size& z) const {
    Scope scope(graph, /*training=*/false);
    const std::int64_t columns = z.sentences * z.rows;
    const Value ids = graph.input("ids", {DType::i32, {z.words, columns}}),
                n_words = graph.input("words", {DType::i32, {columns}}),
                n_sentences = graph.input("sentences", {DType::i32, {z.rows}});
    return network.build(scope, ids, n_words, n_sentences);
  }

  BackendHandle backend;
  Lexicon words, lexicon;
  std::vector<std::string> labels;
  DocumentNetwork network;
  Constants constants;
  ProgramCache<Size> programs;
};

DocumentClassifier::DocumentClassifier(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend) {
  require_task(metadata, "document", k_document_reader);
  state_ = hidden_state<State>(metadata, parameters, backend);
}

const std::vector<std::string>& DocumentClassifier::labels() const { return state_->labels; }

void DocumentClassifier::check(std::string_view text) const {
  require_text(text, k_document_reader);
  if (const std::string excess = excess_of(document_of(text)); !excess.empty())
    throw Error(ErrorKind::usage, k_document_reader, excess);
}

std::vector<DocumentClassifier::Result> DocumentClassifier::predict(std::span<const std::string> texts,
                                                                    std::int64_t top_k) {
  State& s = *state_;
  std::vector<Result> results(texts.size());
  std::vector<Sentences> documents(texts.size());
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>> by_size;  // by S and W
  for (std::size_t i = 0; i < texts.size(); ++i) {
    require_text(texts[i], k_document_reader);
    const Document document = document_of(texts[i]);
    if (const std::string excess = excess_of(document); !excess.empty()) refuse_input(k_document_reader, i, excess);
    if (document.empty()) continue;
    documents[i] = sentences_of(document, s.words);
    for (const std::vector<std::int32_t>& sentence : documents[i]) {
      results[i].words += std::ssize(sentence);
      for (const std::int32_t word : sentence) results[i].unknown += word == s.words.size();
    }
    by_size[{padded_length(std::ssize(documents[i])), padded_length(most_words(documents[i]))}].push_back(i);
  }
  for (const auto& [size, items] : by_size) {
    const std::int64_t S = size.first, W = size.second;
    for_each_batch(items, prediction_rows(S * W), [&](std::span<const std::size_t> part, std::int64_t rows) {
      std::vector<const Sentences*> batch;
      for (const std::size_t i : part) batch.push_back(&documents[i]);
      const TensorMap outputs = s.program({S, W, rows})->run(document_inputs(batch, S, W, rows));
      const auto probabilities = outputs.at("probabilities").values<float>();
      for (std::size_t b = 0; b < part.size(); ++b) {
        const auto own = probabilities.subspan(b * s.labels.size(), s.labels.size());
        require_finite(k_document_reader, part[b], own);
        results[part[b]].labels = ranked(own, s.labels, top_k);
      }
    });
  }
  return results;
}

DocumentClassifier::Attention DocumentClassifier::attention(std::string_view text) {
  check(text);
  const State& s = *state_;
  const Document document = document_of(text);
  Attention a;
  if (document.empty() || s.network.pooling != "attention") return a;
  const Sentences ids = sentences_of(document, s.words);
  const std::int64_t S = padded_length(std::ssize(ids)), W = padded_length(most_words(ids));
  Graph graph;
  const DocumentNetwork::Outputs outputs = s.build(graph, {S, W, 1});
  graph.output("words", outputs.word_weights);
  graph.output("sentences", outputs.sentence_weights);
  Program program(*with_constants(graph, 3, s.constants, k_document_reader), s.backend);
  const Sentences* const one[] = {&ids};
  const TensorMap weights = program.run(document_inputs(one, S, W, 1));
  const auto of_words = weights.at("words").values<float>();          // [W,S]
  const auto of_sentences = weights.at("sentences").values<float>();  // [S,1]
  for (std::size_t i = 0; i < document.size(); ++i) {
    a.sentences.push_back({of_sentences[i], document[i], {}});
    for (std::size_t w = 0; w < document[i].size(); ++w)
      a.sentences.back().weights.push_back(of_words[w * S + i]);
  }
  return a;
}

std::string DocumentClassifier::label(std::string_view text) {
  check(text);
  const std::string one[] = {std::string(text)};
  const std::vector<Result> results = predict(one);
  return results[0].labels.empty() ? "" : results[0].labels[0].label;
}

namespace {

std::vector<Prediction> read_inputs(DocumentClassifier& reader, std::span<const PredictInput> inputs,
                                    const PredictOptions& options) {
  return predictions_of(reader.predict(texts_in(inputs), options.top_k), &DocumentClassifier::Result::labels);
}

void document_examples(const ExampleRequest& r, Examples& examples) {
  DocumentClassifier reader(r.metadata, r.parameters, r.backend);
  ConfusionCount confusion(reader.labels());
  Chosen<ClassExample> chosen(r.most);
  struct Record {
    std::string label, text;
  };
  const auto read = [](std::string_view record) {
    const std::size_t tab = std::min(record.find('\t'), record.size());
    return Record{std::string(record.substr(0, tab)), std::string(record.substr(std::min(tab + 1, record.size())))};
  };
  for_each_batch_of<Record>(r.task, examples.split, read, [&](const std::vector<Record>& batch) {
    std::vector<std::string> texts;
    for (const Record& record : batch) texts.push_back(record.text);
    const std::vector<DocumentClassifier::Result> results = reader.predict(texts);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (results[i].labels.empty()) continue;
      const ScoredLabel& best = results[i].labels[0];
      confusion.add(batch[i].label, best.label);
      chosen.add({batch[i].text, batch[i].label, best.label, best.probability, {}}, best.label == batch[i].label);
    }
  });
  examples.classes = chosen.take();
  for (ClassExample& e : examples.classes) e.attention = reader.attention(e.input);
  examples.confusion = std::move(confusion.result);
}

}  // namespace

const PredictionRow document_prediction_row{
    "texts -> lists of (label, probability)",
    PredictorWith<DocumentClassifier, InputForm::text, read_inputs>::make, document_examples};

}  // namespace unroll
