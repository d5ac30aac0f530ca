// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/encoding.h"
#include "core/tasks/common/example_parts.h"
#include "core/tasks/decode/text_writer.h"

namespace unroll {

namespace {

constexpr const char* k_summarizer = "Summarizer";

constexpr WritingLimits k_summary_limits{
    .longest = [](const SourceTokens&, const PairCoder& coder) { return coder.limits().target; }};

}  // namespace

struct Summarizer::State {
  TextWriter writer;
};

Summarizer::Summarizer(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend)
    : state_(hidden_state<State>(TextWriter(metadata, "summarize", k_summarizer, parameters, backend))) {}

void Summarizer::check(std::string_view source) const {
  require_text(source, k_summarizer);
}

std::vector<Summarizer::Result> Summarizer::predict(std::span<const std::string> sources,
                                                    const DecodeOptions& options) {
  std::vector<Result> results(sources.size());
  std::vector<SourceTokens> tokens;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    check(sources[i]);
    const SourceTokens& one = tokens.emplace_back(state_->writer.coder().source(sources[i], k_summarizer));
    results[i].tokens = std::ssize(one.ids);
    results[i].unknown = one.n_unknown;
    results[i].cut = one.cut;
  }
  std::vector<std::vector<ScoredText>> written = state_->writer.write(tokens, options, k_summary_limits);
  for (std::size_t i = 0; i < sources.size(); ++i) results[i].summaries = std::move(written[i]);
  return results;
}

std::string Summarizer::summarize(std::string_view source, const DecodeOptions& options) {
  const std::string one[] = {std::string(source)};
  const std::vector<Result> results = predict(one, options);
  return results[0].summaries.empty() ? "" : results[0].summaries[0].text;
}

Summarizer::Attention Summarizer::attention(std::string_view source, std::string_view summary) {
  check(source);
  check(summary);
  return state_->writer.attention(source, summary);
}

namespace {

std::vector<Prediction> summarize_inputs(Summarizer& summarizer, std::span<const PredictInput> inputs,
                                         const PredictOptions& options) {
  std::vector<Prediction> list;
  for (Summarizer::Result& result : summarizer.predict(texts_in(inputs), options.decode))
    list.emplace_back(result.summaries.empty() ? std::string() : std::move(result.summaries[0].text));
  return list;
}

void summarize_examples(const ExampleRequest& r, Examples& examples) {
  const auto* task = dynamic_cast<const PairTask*>(&r.task);
  if (!task) return;
  const auto [sources, targets] = FirstPairs(*task, examples.split, r.most);
  Summarizer summarizer(r.metadata, r.parameters, r.backend);
  const auto results = summarizer.predict(sources);
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (const auto& summaries = results[i].summaries; !summaries.empty())
      examples.translations.push_back({sources[i], targets[i], summaries[0].text, summaries[0].log_probability,
                                       summarizer.attention(sources[i], summaries[0].text)});
}

}  // namespace

const PredictionRow summarize_prediction_row{
    "texts -> lines",
    PredictorWith<Summarizer, InputForm::text, summarize_inputs>::make, summarize_examples};

}  // namespace unroll
