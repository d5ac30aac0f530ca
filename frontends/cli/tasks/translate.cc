// SPDX-License-Identifier: Apache-2.0
// Translations of lines.
#include <fmt/format.h>

#include "frontends/cli/answers/answers.h"
#include "frontends/cli/answers/pair_scores.h"
#include "frontends/cli/measure/sample_data.h"
#include "frontends/cli/page/pictures.h"
#include "frontends/cli/tasks/task_row.h"
#include "frontends/cli/tasks/written_texts.h"
#include "unroll/error.h"

namespace unroll::cli {
namespace {

class TranslateAnswers : public Answers {
 public:
  TranslateAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : translator_(run.model.metadata, run.model.tensors, backend), decode_(options.decode),
        written_("target", "targets", options) {
    unknown_.unit = unit_of_tokens(run);
  }
  RowFormat usual_format() const override { return RowFormat::text; }
  std::vector<std::string> columns() const override { return written_.columns(); }
  bool accepts(const InputLine& line) override {
    translator_.check(line.text);
    return true;
  }
  void predict(const std::vector<InputLine>& lines) override {
    results_ = translator_.predict(texts_of(lines), decode_);
    for (std::size_t i = 0; i < lines.size() && drawn_.size() < k_most_drawn; ++i)
      if (results_[i].tokens > 0) drawn_.emplace_back(lines[i].text, results_[i].text);
    for (const Translator::Result& r : results_) {
      unknown_.tokens += r.tokens;
      unknown_.unknown += r.unknown;
    }
  }
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    written_.put(line, results_[i].targets, writer);
  }
  UnknownCount unknown() const override { return unknown_; }
  std::vector<Panel> panels() override {
    if (drawn_.empty()) return {};
    const auto& [source, target] = drawn_[0];
    return {attention_panel(translator_.attention(source, target), "Attention: " + source)};
  }
  bool explains_attention() const override { return true; }
  std::vector<WrittenAttention> attentions() override {
    std::vector<WrittenAttention> maps;
    for (const auto& [source, target] : drawn_) maps.push_back(translator_.attention(source, target));
    return maps;
  }

 private:
  Translator translator_;
  std::vector<std::pair<std::string, std::string>> drawn_;  // the first lines with tokens, and their targets
  DecodeOptions decode_;
  WrittenTexts written_;
  std::vector<Translator::Result> results_;
  UnknownCount unknown_;
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
    .sample = {"pairs.tsv",
               sample_pairs,
               {"model.hidden=48", "model.embedding=32", "train.lr=0.005", "train.max_updates=300"}},
    .make = make_of<TranslateOptions, PairTask, make_translate, task_options<TranslateOptions>>,
    .check = check_of<task_options<TranslateOptions>>,
    .answers = answer_with<TranslateAnswers>,
    .scoring = &k_translation_scoring,
};

}  // namespace unroll::cli
