// SPDX-License-Identifier: Apache-2.0
// Labels for the tokens of a sentence.
#include <fmt/format.h>

#include "frontends/cli/predict/answers.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/tasks/sample_data.h"
#include "frontends/cli/tasks/task_row.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

LabelOptions label_options(const Config& c, const std::string& folder) {
  if (const std::string& tokens = c.text("data.tokens"); tokens != "words" && tokens != "characters")
    c.refuse("data.tokens", "a label is for a word or a character", "Set it to words or characters");
  return task_options<LabelOptions>(c, folder);
}

using Json = RowWriter::Json;

class LabelAnswers : public LineAnswers<Labeler> {
 public:
  LabelAnswers(const RunFolder& run, Backend& backend, const PredictArguments&)
      : LineAnswers(run, backend, unit_of_tokens(run)) {}
  std::vector<std::string> columns() const override { return {"line", "token", "label", "probability"}; }
  void predict(const std::vector<InputLine>& lines) override {
    sentences_.clear();
    for (const std::string& text : texts_of(lines)) sentences_.push_back(model_.cut(text));
    results_ = model_.predict(sentences_);
  }
  // As text: the form of the training file.
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    const Labeler::Sentence& tokens = sentences_[i];
    const Labeler::Result& r = results_[i];
    if (writer.format() == RowFormat::jsonl) {
      Json probabilities = Json::array();
      for (const double p : r.probabilities) probabilities.push_back(json_number(p));
      return put_json({{"tokens", tokens},
                       {"labels", r.labels},
                       {"probabilities", probabilities},
                       {"probability", tokens.empty() ? Json() : json_number(r.probability)}},
                      line, writer);
    }
    const std::string number = std::to_string(line.number);
    if (writer.is_table() && tokens.empty()) writer.row(std::vector<std::string>{number, "", "", ""});
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      if (writer.is_table())
        writer.row(std::vector{number, tokens[t], r.labels[t], number_cell(r.probabilities[t])});
      else
        writer.text(fmt::format("{}\t{}\n", tokens[t], r.labels[t]));
    }
    if (!writer.is_table()) writer.text("\n");
  }

 private:
  std::vector<Labeler::Sentence> sentences_;
};

}  // namespace

const TaskRow label_row = {
    .title = "Labels for tokens",
    .loss = "Loss (nats per token)",
    .metrics = {{{"f1_macro", "F1, macro average", true}}},
    .defaults = {{{"model.hidden", 32}, {"model.embedding", 32}, {"train.lr", 0.005}, {"train.max_updates", 200}}},
    .sample = {"tokens.tsv", sample_labels},
    .make = make_of<make_label, label_options>,
    .check = check_of<label_options>,
    .answers = answer_with<LabelAnswers>,
    .counts_confusion = true,
    .undrawn = "predict draws no picture of token labels",
    .undrawn_hint = "`unroll eval {} --svg FILE` draws their confusion matrix",
};

}  // namespace unroll::cli
