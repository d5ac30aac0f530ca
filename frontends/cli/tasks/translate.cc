// SPDX-License-Identifier: Apache-2.0
// Translations of lines.
#include <fmt/format.h>

#include "frontends/cli/answers/answers.h"
#include "frontends/cli/measure/sample_data.h"
#include "frontends/cli/page/pictures.h"
#include "frontends/cli/tasks/task_row.h"
#include "unroll/error.h"

namespace unroll::cli {
namespace {

using Json = RowWriter::Json;

class TranslateAnswers : public Answers {
 public:
  TranslateAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : translator_(run.model.metadata, run.model.tensors, backend), decode_(options.decode) {
    unknown_.unit = unit_of_tokens(run);
  }
  RowFormat usual_format() const override { return RowFormat::text; }
  std::vector<std::string> columns() const override { return {"source", "target", "log_probability"}; }
  bool accepts(const InputLine& line) override {
    translator_.check(line.text);
    return true;
  }
  void predict(const std::vector<InputLine>& lines) override {
    results_ = translator_.predict(texts_of(lines), decode_);
    for (std::size_t i = 0; i < lines.size() && drawn_source_.empty(); ++i) {
      if (results_[i].tokens == 0) continue;
      drawn_source_ = lines[i].text;
      drawn_target_ = results_[i].text;
    }
    for (const Translator::Result& r : results_) {
      unknown_.tokens += r.tokens;
      unknown_.unknown += r.unknown;
    }
  }
  // As text: the target alone.
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    const Translator::Result& r = results_[i];
    const bool answered = r.tokens > 0;
    if (writer.format() == RowFormat::jsonl)
      return put_json({{"source", line.text},
                       {"target", r.text},
                       {"log_probability", answered ? json_number(r.log_probability) : Json()}},
                      line, writer);
    if (writer.is_table())
      return writer.row(std::vector{line.text, r.text, answered ? number_cell(r.log_probability) : ""});
    writer.text(r.text + "\n");
  }
  UnknownCount unknown() const override { return unknown_; }
  std::vector<Panel> panels() override {
    if (drawn_source_.empty()) return {};
    return {attention_panel(translator_.attention(drawn_source_, drawn_target_), "Attention: " + drawn_source_)};
  }

 private:
  Translator translator_;
  std::string drawn_source_, drawn_target_;  // the first line with tokens
  DecodeOptions decode_;
  std::vector<Translator::Result> results_;
  UnknownCount unknown_;
};

}  // namespace

const TaskRow translate_row = {
    .title = "Translation",
    .loss = "Loss (nats per token)",
    .metrics = {{{"bleu", "BLEU", true}, {"token_accuracy", "token accuracy", true}}},
    .sample = {"pairs.tsv",
               sample_pairs,
               {"model.hidden=48", "model.embedding=32", "train.lr=0.005", "train.max_updates=300"}},
    .make = make_of<TranslateOptions, PairTask, make_translate, task_options<TranslateOptions>>,
    .check = check_of<task_options<TranslateOptions>>,
    .answers = answer_with<TranslateAnswers>,
};

}  // namespace unroll::cli
