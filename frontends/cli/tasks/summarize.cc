// SPDX-License-Identifier: Apache-2.0
// Summaries of texts.
#include <fmt/format.h>

#include "core/support/text/counted.h"
#include "frontends/cli/answers/answers.h"
#include "frontends/cli/answers/pair_scores.h"
#include "frontends/cli/measure/sample_data.h"
#include "frontends/cli/page/pictures.h"
#include "frontends/cli/tasks/task_row.h"
#include "frontends/cli/tasks/written_texts.h"
#include "unroll/error.h"

namespace unroll::cli {
namespace {

class SummarizeAnswers : public Answers {
 public:
  SummarizeAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : summarizer_(run.model.metadata, run.model.tensors, backend), decode_(options.decode),
        written_("summary", "summaries", options) {
    unknown_.unit = unit_of_tokens(run);
  }
  RowFormat usual_format() const override { return RowFormat::text; }
  std::vector<std::string> columns() const override { return written_.columns(); }
  bool accepts(const InputLine& line) override {
    summarizer_.check(line.text);
    return true;
  }
  void predict(const std::vector<InputLine>& lines) override {
    results_ = summarizer_.predict(texts_of(lines), decode_);
    for (std::size_t i = 0; i < lines.size() && drawn_.size() < k_most_drawn; ++i)
      if (!results_[i].summaries.empty()) drawn_.emplace_back(lines[i].text, results_[i].summaries[0].text);
    for (const Summarizer::Result& r : results_) {
      unknown_.tokens += r.tokens;
      unknown_.unknown += r.unknown;
      cut_ += r.cut > 0;
      cut_tokens_ += r.cut;
    }
  }
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    written_.put(line, results_[i].summaries, writer);
  }
  UnknownCount unknown() const override { return unknown_; }
  std::string summary() const override {
    if (cut_ == 0) return {};
    return fmt::format("{} cut at data.source_tokens: {} not read", counted_are(cut_, "source"),
                       counted(cut_tokens_, "token"));
  }
  std::vector<Panel> panels() override {
    if (drawn_.empty()) return {};
    const auto& [source, summary] = drawn_[0];
    return {attention_panel(summarizer_.attention(source, summary), "Attention: " + source)};
  }
  bool explains_attention() const override { return true; }
  std::vector<WrittenAttention> attentions() override {
    std::vector<WrittenAttention> maps;
    for (const auto& [source, summary] : drawn_) maps.push_back(summarizer_.attention(source, summary));
    return maps;
  }

 private:
  Summarizer summarizer_;
  std::vector<std::pair<std::string, std::string>> drawn_;  // the first lines with tokens, and their summaries
  DecodeOptions decode_;
  WrittenTexts written_;
  std::vector<Summarizer::Result> results_;
  UnknownCount unknown_;
  std::int64_t cut_ = 0, cut_tokens_ = 0;
};

constexpr TextScoring k_summary_scoring{
    .options = {.stem = true},
    .metrics = [](const TextScores& s) {
      return Metrics{{"exact_match", s.exact_match},
                     {"rouge1", s.rouge1.f},
                     {"rouge2", s.rouge2.f},
                     {"rougeL", s.rougeL.f}};
    },
    .baselines = summary_baselines,
    .counts_trigrams = true};

}  // namespace

const TaskRow summarize_row = {
    .title = "Summaries",
    .loss = "Loss (nats per token)",
    .metrics = {{{"rouge1", "ROUGE-1", true}, {"perplexity", "perplexity", false}}},
    .sample = {"reports.tsv",
               sample_summaries,
               {"model.hidden=32", "model.embedding=24", "data.target_tokens=20", "train.lr=0.01",
                "train.max_updates=300"}},
    .make = make_of<SummarizeOptions, PairTask, make_summarize, task_options<SummarizeOptions>>,
    .check = check_of<task_options<SummarizeOptions>>,
    .answers = answer_with<SummarizeAnswers>,
    .scoring = &k_summary_scoring,
};

}  // namespace unroll::cli
