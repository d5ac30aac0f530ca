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
class TextAnswers : public LineAnswers<Model> {
 public:
  TextAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options, WrittenTexts written)
      : LineAnswers<Model>(run, backend, unit_of_tokens(run)), decode_(options.decode), written_(std::move(written)) {}
  std::vector<std::string> columns() const override { return written_.columns(); }
  void predict(const std::vector<InputLine>& lines) override {
    results_ = model_.predict(texts_of(lines), decode_);
  }
  void count(const std::vector<InputLine>& lines) override {
    for (std::size_t i = 0; i < lines.size() && drawn_.size() < k_most_drawn; ++i)
      if (!(results_[i].*texts).empty()) drawn_.emplace_back(lines[i].text, (results_[i].*texts)[0].text);
    LineAnswers<Model>::count(lines);
  }
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    written_.put(line, results_[i].*texts, writer);
  }
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
  using LineAnswers<Model>::model_;
  using LineAnswers<Model>::results_;

 private:
  std::vector<std::pair<std::string, std::string>> drawn_;  // the first lines with a text, and their best text
  DecodeOptions decode_;
  WrittenTexts written_;
};

}  // namespace unroll::cli
