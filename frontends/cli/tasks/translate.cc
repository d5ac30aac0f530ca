// SPDX-License-Identifier: Apache-2.0
// Translation of lines.
#include "frontends/cli/predict/pair_scores.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/task_row.h"
#include "frontends/cli/tasks/written_texts.h"

namespace unroll::cli {
namespace {

class TranslateAnswers : public TextAnswers<Translator, &Translator::Result::targets> {
 public:
  TranslateAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : TextAnswers(run, backend, options, {"target", "targets", options}) {}
};

constexpr TextScoring k_translation_scoring{
    .options = {},
    .metrics = [](const TextScores& s) {
      return Metrics{{"exact_match", s.exact_match}, {"bleu", s.bleu},       {"chrf", s.chrf},
                     {"rouge1", s.rouge1.f},         {"rouge2", s.rouge2.f}, {"rougeL", s.rougeL.f}};
    },
    .baselines = translation_baselines};

}  // namespace

const TaskRow translate_row = {
    .title = "Translation",
    .loss = "Loss (nats per token)",
    .metrics = {{{"bleu", "BLEU", true}, {"token_accuracy", "token accuracy", true}}},
    .defaults = {{{"model.hidden", 48}, {"model.embedding", 32}, {"train.lr", 0.005}, {"train.max_updates", 300}}},
    .sample = {"pairs.tsv", sample_pairs},
    .make = make_of<make_translate, task_options<TranslateOptions>>,
    .check = check_of<task_options<TranslateOptions>>,
    .answers = answer_with<TranslateAnswers>,
    .scoring = &k_translation_scoring,
};

}  // namespace unroll::cli
