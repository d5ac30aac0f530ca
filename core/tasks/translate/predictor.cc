// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/encoding.h"
#include "core/tasks/common/example_parts.h"
#include "core/tasks/decode/text_writer.h"

namespace unroll {

namespace {

constexpr const char* k_translator = "Translator";

constexpr WritingLimits k_translation_limits{
    .longest = [](const SourceTokens& source, const PairCoder&) {
      return 2 * std::ssize(source.ids) + 20;
    }};

std::string excess_tokens(const std::string& what, std::size_t tokens, std::int64_t cut) {
  if (cut == 0) return {};
  return "a " + what + " may have at most " + std::to_string(k_max_line_tokens) + " tokens; got " +
         std::to_string(static_cast<std::int64_t>(tokens) + cut);
}

}  // namespace

struct Translator::State {
  TextWriter writer;
  SourceTokens read(std::string_view source) const {
    require_text(source, k_translator);
    return writer.coder().source(source, k_translator);
  }
};

Translator::Translator(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend)
    : state_(hidden_state<State>(TextWriter(metadata, "translate", k_translator, parameters, backend))) {}

void Translator::check(std::string_view source) const {
  const SourceTokens tokens = state_->read(source);
  if (const std::string what = excess_tokens("source", tokens.ids.size(), tokens.cut); !what.empty())
    throw Error(ErrorKind::usage, k_translator, what);
}

std::vector<Translator::Result> Translator::predict(std::span<const std::string> sources,
                                                    const DecodeOptions& options) {
  std::vector<Result> results(sources.size());
  std::vector<SourceTokens> tokens;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const SourceTokens& one = tokens.emplace_back(state_->read(sources[i]));
    if (const std::string what = excess_tokens("source", one.ids.size(), one.cut); !what.empty())
      refuse_input(k_translator, i, what);
    results[i].tokens = std::ssize(one.ids);
    results[i].unknown = one.n_unknown;
  }
  std::vector<std::vector<ScoredText>> written = state_->writer.write(tokens, options, k_translation_limits);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    results[i].targets = std::move(written[i]);
    if (results[i].targets.empty()) continue;
    results[i].text = results[i].targets[0].text;
    results[i].log_probability = results[i].targets[0].log_probability;
  }
  return results;
}

std::string Translator::translate(std::string_view source, const DecodeOptions& options) {
  check(source);
  const std::string one[] = {std::string(source)};
  return std::move(predict(one, options)[0].text);
}

Translator::Attention Translator::attention(std::string_view source, std::string_view target) {
  check(source);
  const PairCoder::Target tokens = state_->writer.coder().target(target, {}, k_translator);
  if (const std::string what = excess_tokens("target", tokens.ids.size(), tokens.cut); !what.empty())
    throw Error(ErrorKind::usage, k_translator, what);
  return state_->writer.attention(source, target);
}

namespace {

std::vector<Prediction> translate_inputs(Translator& translator, std::span<const PredictInput> inputs,
                                         const PredictOptions& options) {
  return predictions_of(translator.predict(texts_in(inputs), options.decode), &Translator::Result::text);
}

void translate_examples(const ExampleRequest& r, Examples& examples) {
  const auto* task = dynamic_cast<const PairTask*>(&r.task);
  if (!task) return;
  const auto [sources, targets] = FirstPairs(*task, examples.split, 4 * r.most);
  Translator translator(r.metadata, r.parameters, r.backend);
  const std::vector<Translator::Result> results = translator.predict(sources);
  Chosen<TranslationExample> chosen(r.most);
  for (std::size_t i = 0; i < sources.size(); ++i)
    chosen.add({sources[i], targets[i], results[i].text, results[i].log_probability, {}},
               results[i].text == targets[i]);
  examples.translations = chosen.take();
  for (TranslationExample& e : examples.translations) e.attention = translator.attention(e.source, e.written);
}

}  // namespace

const PredictionRow translate_prediction_row{
    "lines -> lines",
    PredictorWith<Translator, InputForm::text, translate_inputs>::make, translate_examples};

}  // namespace unroll
