// SPDX-License-Identifier: Apache-2.0
// Log probabilities of lines under a language model. A line longer than a window is read window by window with carried
// state.
#include <cmath>
#include <limits>
#include <numbers>

#include "core/data/batch/buckets.h"
#include "core/data/text/encoding.h"
#include "core/data/text/text.h"
#include "core/model/constants.h"
#include "core/support/tensor_role.h"
#include "core/tasks/common/prediction_batches.h"
#include "core/tasks/common/split_buckets.h"
#include "core/tasks/common/task_rows.h"
#include "core/tasks/language_model/language_model.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr std::string_view k_text_scorer = "TextScorer";
constexpr std::int64_t k_most_logits = std::int64_t{1} << 22;  // [T,B,V]

}  // namespace

struct TextScorer::State {
  State(const Metadata& metadata, const TensorMap& parameters, BackendHandle b)
      : backend(b), tokenizer(language_tokenizer(metadata, "model")), network(LanguageNetwork::of(metadata)),
        window(std::clamp<std::int64_t>(k_most_logits / std::max<std::int64_t>(network.vocabulary, 1), 4, 256)),
        constants(constants_of(parameters)) {
    if (network.document_start >= 0) before = {network.document_start};
    else if (const auto line_break = tokenizer.encode("\n", "line break");
             line_break.size() == 1 && line_break[0] != tokenizer.unknown())
      before = line_break;
    program(padded_length(1), 1);  // checks early that metadata and parameters match
  }

  // ids, labels i32 [T,B], state.<k> -> losses [T,B], state.<k>
  std::shared_ptr<Program> program(std::int64_t steps, std::int64_t rows) {
    return programs.get({steps, rows}, [&] {
      Graph graph;
      Scope scope(graph, /*training=*/false);
      const Type type{DType::i32, {steps, rows}};
      const Value ids = graph.input("ids", type), labels = graph.input("labels", type);
      std::vector<Value> states;
      for (const Shape& shape : recurrent_state_shapes(network.model, rows, network.embedding))
        states.push_back(graph.input(state_name(states.size()), {DType::f32, shape}));
      const CellLayerResult r = network.build(scope, ids, states);
      graph.output("losses", softmax_cross_entropy(r.y, labels));
      for (std::size_t k = 0; k < states.size(); ++k) graph.output(state_name(k), r.states[k]);
      return std::make_shared<Program>(*with_constants(graph, 2 + states.size(), constants, k_text_scorer), backend);
    });
  }

  // Computes the log probabilities of `lines` [T,B] at a time, window by window.
  void run(std::span<const std::vector<std::int32_t>> lines, std::span<const std::size_t> items, std::int64_t rows,
           std::vector<Result>& results) {
    std::size_t longest = 0;
    for (const std::size_t i : items) longest = std::max(longest, lines[i].size());
    TensorMap states;
    for (const Shape& shape : recurrent_state_shapes(network.model, rows, network.embedding)) {
      const std::string name = state_name(states.size());
      states.emplace(name, Tensor(DType::f32, shape));
    }
    // The last token of a line is only a target.
    for (std::size_t at = 0; at + 1 < longest; at += window) {
      const std::int64_t steps = std::min(window, padded_length(static_cast<std::int64_t>(longest - at) - 1));
      Tensor ids(DType::i32, {steps, rows}), labels = Tensor::filled({DType::i32, {steps, rows}}, k_no_label);
      for (std::size_t b = 0; b < items.size(); ++b) {
        const std::span<const std::int32_t> line = lines[items[b]];
        if (at + 1 >= line.size()) continue;
        const std::size_t n = std::min<std::size_t>(steps, line.size() - at - 1);
        put_column(ids, static_cast<std::int64_t>(b), line.subspan(at, n));
        put_column(labels, static_cast<std::int64_t>(b), line.subspan(at + 1, n));
      }
      TensorMap inputs = std::move(states);
      inputs.emplace("ids", std::move(ids));
      inputs.emplace("labels", std::move(labels));
      states = program(steps, rows)->run(inputs);
      const Tensor losses = std::move(states.at("losses"));
      states.erase("losses");
      for (std::int64_t i = 0; i < losses.elements(); ++i)
        if (const std::size_t b = i % rows; b < items.size())
          results[items[b]].log_probability -= losses.at(i);
    }
  }

  BackendHandle backend;
  Tokenizer tokenizer;
  LanguageNetwork network;
  std::int64_t window;
  std::vector<std::int32_t> before;  // one token, or none
  Constants constants;
  ProgramCache<std::pair<std::int64_t, std::int64_t>> programs;  // by T and B
};

TextScorer::TextScorer(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend) {
  require_task(metadata, "language_model", k_text_scorer);
  state_ = hidden_state<State>(metadata, parameters, backend);
}

double TextScorer::Result::perplexity() const {
  if (scored == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::exp(-log_probability / static_cast<double>(scored));
}

double TextScorer::Result::bits_per_character() const {
  if (characters == 0) return std::numeric_limits<double>::quiet_NaN();
  return -log_probability * std::numbers::log2e / static_cast<double>(characters);
}

void TextScorer::check(std::string_view line) const {
  if (state_->tokenizer.kind() != "bytes") require_text(line, k_text_scorer);
}

std::vector<TextScorer::Result> TextScorer::predict(std::span<const std::string> texts) {
  State& s = *state_;
  std::vector<Result> results(texts.size());
  std::vector<std::vector<std::int32_t>> lines(texts.size());
  std::map<std::int64_t, std::vector<std::size_t>> by_length;  // lines longer than a window run alone
  for (std::size_t i = 0; i < texts.size(); ++i) {
    check(texts[i]);
    const std::vector<std::int32_t> ids = s.tokenizer.encode(texts[i], std::string(k_text_scorer));
    if (ids.empty()) continue;
    lines[i] = s.before;
    lines[i].insert(lines[i].end(), ids.begin(), ids.end());
    Result& result = results[i];
    result.tokens = std::ssize(ids);
    result.unknown = std::count(ids.begin(), ids.end(), s.tokenizer.unknown());
    result.scored = std::ssize(lines[i]) - 1;
    if (s.tokenizer.kind() != "words")
      for (std::size_t t = 1; t < lines[i].size(); ++t) result.characters += s.tokenizer.characters(lines[i][t]);
    if (result.scored > 0) by_length[std::min(padded_length(result.scored), s.window + 1)].push_back(i);
  }
  for (const auto& [length, items] : by_length) {
    const std::int64_t rows = length > s.window ? 1 : prediction_rows(length * s.network.vocabulary, k_most_logits);
    for_each_batch(items, rows, [&](std::span<const std::size_t> part, std::int64_t B) {
      s.run(lines, part, B, results);
    });
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto total = static_cast<float>(results[i].log_probability);
    require_finite(k_text_scorer, i, {&total, 1});
  }
  return results;
}

std::vector<std::string> unknown_tokens(const Metadata& metadata, std::string_view text) {
  const Tokenizer tokenizer = language_tokenizer(metadata, "model");
  std::vector<std::string> parts, unknown;
  if (tokenizer.kind() != "bytes") require_text(text, "prompt");
  if (tokenizer.unknown() < 0) return {};
  if (tokenizer.pieces()) {
    for (const std::string_view piece : pieces_of(text)) parts.emplace_back(piece);
  } else {
    for (const char32_t c : decode_utf8(text, "text")) append_utf8(parts.emplace_back(), c);
  }
  for (const std::string& part : parts) {
    const std::vector<std::int32_t> ids = tokenizer.encode(part, "text");
    const bool is_unknown = ids.size() == 1 && ids[0] == tokenizer.unknown();
    if (is_unknown && std::find(unknown.begin(), unknown.end(), part) == unknown.end()) unknown.push_back(part);
  }
  return unknown;
}

namespace {

std::vector<Prediction> score_inputs(TextScorer& scorer, std::span<const PredictInput> inputs, const PredictOptions&) {
  return predictions_of(scorer.predict(texts_in(inputs)), &TextScorer::Result::log_probability);
}

void sample_text(const ExampleRequest& r, Examples& examples) {
  examples.prompt = "\n";
  generate(r.metadata, r.parameters, r.backend,
           {.prompt = examples.prompt, .length = static_cast<std::int64_t>(r.most), .temperature = 0.8},
           [&](std::string_view text) { examples.text += text; });
}

}  // namespace

const PredictionRow language_model_prediction_row{
    "lines -> natural logarithms of their probabilities",
    PredictorWith<TextScorer, InputForm::text, score_inputs>::make, sample_text};

}  // namespace unroll
