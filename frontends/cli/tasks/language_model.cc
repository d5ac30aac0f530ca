// SPDX-License-Identifier: Apache-2.0
// Language models: scores of texts.
#include <fmt/format.h>

#include "frontends/cli/predict/answers.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/task_row.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

class LineScores : public LineAnswers<TextScorer> {
 public:
  LineScores(const RunFolder& run, Backend& backend, const PredictArguments&)
      : LineAnswers(run, backend, unit_of_tokens(run)) {}
  RowFormat usual_format() const override { return RowFormat::tsv; }
  std::vector<std::string> columns() const override {
    return {"tokens", "unknown", "log_probability", "perplexity", "bits_per_character"};
  }
  void predict(const std::vector<InputLine>& lines) override { results_ = model_.predict(texts_of(lines)); }
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    const TextScorer::Result& r = results_[i];
    const double log_probability = r.scored > 0 ? r.log_probability : std::numeric_limits<double>::quiet_NaN();
    if (writer.format() == RowFormat::jsonl)
      return put_json({{"text", line.text},
                       {"tokens", r.tokens},
                       {"unknown", r.unknown},
                       {"log_probability", json_number(log_probability)},
                       {"perplexity", json_number(r.perplexity())},
                       {"bits_per_character", json_number(r.bits_per_character())}},
                      line, writer);
    const std::vector<std::string> cells{std::to_string(r.tokens), std::to_string(r.unknown),
                                         number_cell(log_probability), number_cell(r.perplexity()),
                                         number_cell(r.bits_per_character())};
    if (writer.is_table()) return writer.row(cells);
    writer.text(fmt::format("{}\n", fmt::join(cells, "\t")));
  }
  std::string summary() const override {
    return "each line is scored by itself; `unroll generate` writes text, `unroll eval` scores the test set";
  }
};

}  // namespace

const TaskRow language_model_row = {
    .title = "Language model",
    .loss = "Loss (nats per token)",
    .metrics = {{{"bits_per_character", "bits per character"}, {"perplexity", "perplexity"}}},
    .defaults = {{{"train.lr", 0.004}, {"train.max_updates", 300}, {"train.batch", 16}}},
    .sample = {"text.txt", sample_text},
    .make = make_of<make_language_model, task_options<LanguageModelOptions>>,
    .check = check_of<task_options<LanguageModelOptions>>,
    .answers = answer_with<LineScores>,
    .n_examples = 600,
    .undrawn = "a language model predicts text, which is not drawn",
    .undrawn_hint = "`unroll generate {}` writes text",
    .draws_examples = false,
    .next = "unroll generate {} --length 200",
};

}  // namespace unroll::cli
