// SPDX-License-Identifier: Apache-2.0
// Classification of documents.
#include <algorithm>

#include "frontends/cli/predict/answers.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/task_row.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

class DocumentAnswers : public LineAnswers<DocumentClassifier> {
 public:
  DocumentAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : LineAnswers(run, backend, "words"),
        top_k_(std::clamp<std::int64_t>(options.top_k, 1, std::ssize(model_.labels()))) {}
  std::vector<std::string> columns() const override { return ranking_columns(top_k_); }
  void predict(const std::vector<InputLine>& lines) override { results_ = model_.predict(texts_of(lines), top_k_); }
  void count(const std::vector<InputLine>& lines) override {
    for (std::size_t i = 0; i < lines.size() && drawn_.size() < k_most_drawn; ++i)
      if (!results_[i].labels.empty()) drawn_.push_back(lines[i].text);
    LineAnswers::count(lines);
  }
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    put_labels({{"text", line.text}}, results_[i].labels, top_k_, line, writer);
  }
  std::vector<Panel> panels() override {
    std::vector<Panel> panels;
    const std::vector<DocumentClassifier::Result> results = model_.predict(drawn_, 0);
    for (std::size_t i = 0; i < results.size(); ++i) {
      panels.push_back(probability_panel(drawn_[i], results[i].labels));
      const DocumentClassifier::Attention attention = model_.attention(drawn_[i]);
      if (!attention.sentences.empty()) panels.push_back(attention_panel(attention, "Attention: " + drawn_[i]));
    }
    return panels;
  }

 private:
  std::vector<std::string> drawn_;  // the first texts
  std::int64_t top_k_;
};

}  // namespace

const TaskRow document_row = {
    .title = "Labels for documents",
    .loss = "Loss (nats per document)",
    .metrics = {{{"accuracy", "accuracy", true}}},
    .defaults = {{{"model.hidden", 24}, {"model.embedding", 16}, {"train.lr", 0.01}, {"train.max_updates", 200}}},
    .sample = {"documents.tsv", sample_documents},
    .make = make_of<make_document, task_options<DocumentOptions>>,
    .check = check_of<task_options<DocumentOptions>>,
    .answers = answer_with<DocumentAnswers>,
    .counts_confusion = true,
};

}  // namespace unroll::cli
