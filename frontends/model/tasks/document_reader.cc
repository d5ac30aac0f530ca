// SPDX-License-Identifier: Apache-2.0
// Labels for documents, one at a time: a program for each padded size.
#include "frontends/data/buckets.h"
#include "frontends/model/constants.h"
#include "frontends/model/tasks/document_network.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/ops.h"
#include "unroll/run.h"

namespace unroll {

namespace {

constexpr std::string_view k_who = "DocumentReader";

Lexicon lexicon_of(const Metadata& metadata, const char* key) {
  return Lexicon::from_lines(get_text(metadata, key), "model metadata '" + std::string(key) + "'");
}

}  // namespace

struct DocumentReader::State {
  State(const Metadata& metadata, const TensorMap& parameters, Backend& b)
      : backend(b), words(lexicon_of(metadata, "vocabulary")), labels(lexicon_of(metadata, "labels")),
        network(DocumentNetwork::of(metadata, words, labels)), constants(constants_of(parameters)) {
    program(padded_length(1), padded_length(1));  // so that what does not fit together is refused here
  }

  // ids i32 [W,S], words i32 [S], sentences i32 [1] -> label i32 [1]
  Program& program(std::int64_t S, std::int64_t W) {
    std::unique_ptr<Program>& made = programs[{S, W}];
    if (made) return *made;
    Graph graph;
    Scope scope(graph, /*training=*/false);
    const Value ids = graph.input("ids", {DType::i32, {W, S}}), n_words = graph.input("words", {DType::i32, {S}}),
                n_sentences = graph.input("sentences", {DType::i32, {1}});
    graph.output("label", argmax(network.build(scope, ids, n_words, n_sentences), -1));
    made = std::make_unique<Program>(*with_constants(graph, 3, constants, k_who), backend);
    return *made;
  }

  Backend& backend;
  Lexicon words, labels;
  DocumentNetwork network;
  Constants constants;
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<Program>> programs;  // by S and W
};

DocumentReader::DocumentReader(const Metadata& metadata, const TensorMap& parameters, Backend& backend) {
  if (get_text(metadata, "task") != "document")
    throw Error(ErrorKind::usage, k_who,
                "the model is a '" + get_text(metadata, "task").substr(0, 40) + "', not a document");
  state_ = std::make_unique<State>(metadata, parameters, backend);
}
DocumentReader::~DocumentReader() = default;
DocumentReader::DocumentReader(DocumentReader&&) noexcept = default;
DocumentReader& DocumentReader::operator=(DocumentReader&&) noexcept = default;

std::string DocumentReader::label(std::string_view text) {
  const Document document = document_of(text);
  if (document.empty()) return {};
  if (const std::string excess = excess_of(document); !excess.empty()) throw Error(ErrorKind::usage, k_who, excess);
  const Sentences sentences = sentences_of(document, state_->words);
  const std::int64_t S = padded_length(static_cast<std::int64_t>(sentences.size())),
                     W = padded_length(most_words(sentences));
  const Sentences* const one[] = {&sentences};
  const TensorMap outputs = state_->program(S, W).run(document_inputs(one, S, W, 1));
  return state_->labels.text(outputs.at("label").values<std::int32_t>()[0]);
}

}  // namespace unroll
