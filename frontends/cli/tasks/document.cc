// SPDX-License-Identifier: Apache-2.0
// Classification of documents.
#include <fmt/format.h>

#include "frontends/cli/predict/answers.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/task_row.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

using Json = RowWriter::Json;

class DocumentAnswers : public Answers {
 public:
  DocumentAnswers(const RunFolder& run, Backend& backend, const PredictArguments& options)
      : reader_(run.model.metadata, run.model.tensors, backend),
        top_k_(std::clamp<std::int64_t>(options.top_k, 1, static_cast<std::int64_t>(reader_.labels().size()))) {}
  RowFormat usual_format() const override { return RowFormat::text; }
  std::vector<std::string> columns() const override { return ranking_columns(top_k_); }
  bool accepts(const InputLine& line) override {
    reader_.check(line.text);
    return true;
  }
  void predict(const std::vector<InputLine>& lines) override {
    results_ = reader_.predict(texts_of(lines), top_k_);
  }
  void count(const std::vector<InputLine>& lines) override {
    for (std::size_t i = 0; i < lines.size() && drawn_.size() < k_most_drawn; ++i)
      if (!results_[i].labels.empty()) drawn_.push_back(lines[i].text);
    for (const DocumentClassifier::Result& r : results_) {
      unknown_.tokens += r.words;
      unknown_.unknown += r.unknown;
    }
  }
  // As text: label and probability, separated by tabs.
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    const std::vector<ScoredLabel>& labels = results_[i].labels;
    if (writer.format() == RowFormat::jsonl) {
      Json object{{"text", line.text}};
      put_ranking(object, labels, top_k_);
      return put_json(std::move(object), line, writer);
    }
    const std::vector<std::string> cells = ranking_cells(labels, top_k_);
    if (writer.is_table()) return writer.row(cells);
    writer.text(labels.empty() ? "\n" : fmt::format("{}\n", fmt::join(cells, "\t")));
  }
  UnknownCount unknown() const override { return unknown_; }
  std::vector<Panel> panels() override {
    std::vector<Panel> panels;
    const std::vector<DocumentClassifier::Result> results = reader_.predict(drawn_, 0);
    for (std::size_t i = 0; i < results.size(); ++i) {
      panels.push_back(probability_panel(drawn_[i], results[i].labels));
      const DocumentClassifier::Attention attention = reader_.attention(drawn_[i]);
      if (!attention.sentences.empty()) panels.push_back(attention_panel(attention, "Attention: " + drawn_[i]));
    }
    return panels;
  }

 private:
  DocumentClassifier reader_;
  std::vector<std::string> drawn_;  // the first texts
  std::int64_t top_k_;
  std::vector<DocumentClassifier::Result> results_;
  UnknownCount unknown_;
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
