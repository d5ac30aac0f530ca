// SPDX-License-Identifier: Apache-2.0
// Generated texts as answers: the best texts of a beam search for each line.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontends/cli/predict/answers.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/tasks/task_row.h"
#include "unroll/tasks/predict.h"

namespace unroll::cli {

// text   a line `text` per text, with scores `text<TAB>score<TAB>log_probability`; with an n-best list an empty line
//        ends the texts of a line
// table  source, (rank,) text, log_probability (, score)
// jsonl  source, text, log_probability (, score) of the best; with an n-best list a list of all
class WrittenTexts {
 public:
  // `one` and `many` name the texts: "summary", "summaries". Throws Error(usage) for more texts than beams.
  WrittenTexts(std::string one, std::string many, const PredictArguments& options);
  std::vector<std::string> columns() const;
  void put(const InputLine& line, std::span<const ScoredText> texts, RowWriter& writer) const;

 private:
  RowWriter::Json json_of(const ScoredText& text) const;
  std::string one_, many_;
  std::size_t nbest_;
  bool scores_;
};

// For models that generate texts for each line, in the member `texts` of their results.
template <class Model, auto texts>
class TextAnswers : public Answers {
 public:
  TextAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options, WrittenTexts written)
      : model_(run.model.metadata, run.model.tensors, backend), decode_(options.decode), written_(std::move(written)) {
    unknown_.unit = unit_of_tokens(run);
  }
  RowFormat usual_format() const override { return RowFormat::text; }
  std::vector<std::string> columns() const override { return written_.columns(); }
  bool accepts(const InputLine& line) override {
    model_.check(line.text);
    return true;
  }
  void predict(const std::vector<InputLine>& lines) override {
    results_ = model_.predict(texts_of(lines), decode_);
  }
  void count(const std::vector<InputLine>& lines) override {
    for (std::size_t i = 0; i < lines.size() && drawn_.size() < k_most_drawn; ++i)
      if (!(results_[i].*texts).empty()) drawn_.emplace_back(lines[i].text, (results_[i].*texts)[0].text);
    for (const typename Model::Result& r : results_) {
      unknown_.tokens += r.tokens;
      unknown_.unknown += r.unknown;
    }
  }
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    written_.put(line, results_[i].*texts, writer);
  }
  UnknownCount unknown() const override { return unknown_; }
  std::vector<Panel> panels() override {
    if (drawn_.empty()) return {};
    const auto& [source, text] = drawn_[0];
    return {attention_panel(model_.attention(source, text), "Attention: " + source)};
  }
  bool explains_attention() const override { return true; }
  std::vector<WrittenAttention> attentions() override {
    std::vector<WrittenAttention> maps;
    for (const auto& [source, text] : drawn_) maps.push_back(model_.attention(source, text));
    return maps;
  }

 protected:
  std::vector<typename Model::Result> results_;

 private:
  Model model_;
  std::vector<std::pair<std::string, std::string>> drawn_;  // the first lines with a text, and their best text
  DecodeOptions decode_;
  WrittenTexts written_;
  UnknownCount unknown_;
};

}  // namespace unroll::cli
