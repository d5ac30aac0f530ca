// SPDX-License-Identifier: Apache-2.0
// Summaries of texts.
#include <fmt/format.h>

#include "core/support/text/counted.h"
#include "frontends/cli/predict/pair_scores.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/task_row.h"
#include "frontends/cli/tasks/written_texts.h"

namespace unroll::cli {
namespace {

class SummarizeAnswers : public TextAnswers<Summarizer, &Summarizer::Result::summaries> {
 public:
  SummarizeAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : TextAnswers(run, backend, options, {"summary", "summaries", options}) {}
  void count(const std::vector<InputLine>& lines) override {
    TextAnswers::count(lines);
    for (const Summarizer::Result& r : results_) {
      cut_ += r.cut > 0;
      cut_tokens_ += r.cut;
    }
  }
  std::string summary() const override {
    if (cut_ == 0) return {};
    return fmt::format("{} cut at data.source_tokens: {} not read", counted_are(cut_, "source"),
                       counted(cut_tokens_, "token"));
  }

 private:
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
    .defaults = {{{"model.hidden", 32}, {"model.embedding", 24}, {"train.lr", 0.01}, {"train.max_updates", 300}}},
    .sample = {"reports.tsv", sample_summaries, "data.target_tokens=20"},
    .make = make_of<make_summarize, task_options<SummarizeOptions>>,
    .check = check_of<task_options<SummarizeOptions>>,
    .answers = answer_with<SummarizeAnswers>,
    .scoring = &k_summary_scoring,
};

}  // namespace unroll::cli
