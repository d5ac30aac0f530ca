// SPDX-License-Identifier: Apache-2.0
// Answers to lines of text: labels of tokens, labels of documents, translations, scores of a language model.
#include <fmt/format.h>

#include "frontends/cli/answers/answers.h"
#include "frontends/cli/page/pictures.h"
#include "unroll/error.h"

namespace unroll::cli {
namespace {

using Json = RowWriter::Json;

std::vector<std::string> texts_of(const std::vector<InputLine>& lines) {
  std::vector<std::string> texts;
  for (const InputLine& line : lines) texts.push_back(line.error.empty() ? line.text : "");
  return texts;
}

// "words", "characters"; of subwords or bytes none is unknown.
std::string kind_of_tokens(const RunFolder& run) {
  const auto at = run.model.metadata.find("tokens");
  return at == run.model.metadata.end() ? "characters" : at->second;
}

void put_json(Json object, const InputLine& line, RowWriter& writer) {
  if (!line.error.empty()) object["error"] = line.error;
  writer.json(object);
}

class LabelAnswers : public Answers {
 public:
  LabelAnswers(const RunFolder& run, Backend& backend) : labeller_(run.model.metadata, run.model.tensors, backend) {
    unknown_.unit = kind_of_tokens(run);
  }
  RowFormat usual_format() const override { return RowFormat::text; }
  std::vector<std::string> columns() const override { return {"line", "token", "label", "probability"}; }
  bool accepts(const InputLine& line) override {
    labeller_.check(labeller_.cut(line.text));
    return true;
  }
  void predict(const std::vector<InputLine>& lines) override {
    sentences_.clear();
    for (const std::string& text : texts_of(lines)) sentences_.push_back(labeller_.cut(text));
    results_ = labeller_.predict(sentences_);
    for (const Labeller::Result& r : results_) {
      unknown_.tokens += static_cast<std::int64_t>(r.labels.size());
      unknown_.unknown += r.unknown;
    }
  }
  // As text: the form of the training file.
  void put(std::size_t i, const InputLine& line, RowWriter& writer) const override {
    const Labeller::Sentence& tokens = sentences_[i];
    const Labeller::Result& r = results_[i];
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
  UnknownCount unknown() const override { return unknown_; }

 private:
  Labeller labeller_;
  std::vector<Labeller::Sentence> sentences_;
  std::vector<Labeller::Result> results_;
  UnknownCount unknown_;
};

class DocumentAnswers : public Answers {
 public:
  DocumentAnswers(const RunFolder& run, Backend& backend, std::int64_t top_k)
      : reader_(run.model.metadata, run.model.tensors, backend),
        top_k_(std::clamp<std::int64_t>(top_k, 1, static_cast<std::int64_t>(reader_.labels().size()))) {}
  RowFormat usual_format() const override { return RowFormat::text; }
  std::vector<std::string> columns() const override { return ranking_columns(top_k_); }
  bool accepts(const InputLine& line) override {
    reader_.check(line.text);
    return true;
  }
  void predict(const std::vector<InputLine>& lines) override {
    results_ = reader_.predict(texts_of(lines), top_k_);
    for (std::size_t i = 0; i < lines.size() && drawn_.size() < k_most_drawn; ++i)
      if (!results_[i].labels.empty()) drawn_.push_back(lines[i].text);
    for (const DocumentReader::Result& r : results_) {
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
    const std::vector<DocumentReader::Result> results = reader_.predict(drawn_, 0);
    for (std::size_t i = 0; i < results.size(); ++i) {
      panels.push_back(probability_panel(drawn_[i], results[i].labels));
      const DocumentReader::Attention attention = reader_.attention(drawn_[i]);
      if (!attention.sentences.empty()) panels.push_back(attention_panel(attention, "Attention: " + drawn_[i]));
    }
    return panels;
  }

 private:
  DocumentReader reader_;
  std::vector<std::string> drawn_;  // the first texts
  std::int64_t top_k_;
  std::vector<DocumentReader::Result> results_;
  UnknownCount unknown_;
};

class TranslateAnswers : public Answers {
 public:
  TranslateAnswers(const RunFolder& run, Backend& backend, const DecodeOptions& decode)
      : translator_(run.model.metadata, run.model.tensors, backend), decode_(decode) {
    unknown_.unit = kind_of_tokens(run);
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

class LineScores : public Answers {
 public:
  LineScores(const RunFolder& run, Backend& backend) : scorer_(run.model.metadata, run.model.tensors, backend) {
    unknown_.unit = kind_of_tokens(run);
  }
  RowFormat usual_format() const override { return RowFormat::tsv; }
  std::vector<std::string> columns() const override {
    return {"tokens", "unknown", "log_probability", "perplexity", "bits_per_character"};
  }
  bool accepts(const InputLine& line) override {
    scorer_.check(line.text);
    return true;
  }
  void predict(const std::vector<InputLine>& lines) override {
    results_ = scorer_.predict(texts_of(lines));
    for (const TextScorer::Result& r : results_) {
      unknown_.tokens += r.tokens;
      unknown_.unknown += r.unknown;
    }
  }
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
  UnknownCount unknown() const override { return unknown_; }
  std::string summary() const override {
    return "each line is scored by itself; `unroll generate` writes text, `unroll eval` scores the test set";
  }

 private:
  TextScorer scorer_;
  std::vector<TextScorer::Result> results_;
  UnknownCount unknown_;
};

}  // namespace

std::unique_ptr<Answers> label_answers(const RunFolder& run, Backend& backend, const PredictArguments&) {
  return std::make_unique<LabelAnswers>(run, backend);
}
std::unique_ptr<Answers> document_answers(const RunFolder& run, Backend& backend, const PredictArguments& options) {
  return std::make_unique<DocumentAnswers>(run, backend, options.top_k);
}
std::unique_ptr<Answers> translate_answers(const RunFolder& run, Backend& backend, const PredictArguments& options) {
  return std::make_unique<TranslateAnswers>(run, backend, options.decode);
}
std::unique_ptr<Answers> line_scores(const RunFolder& run, Backend& backend, const PredictArguments&) {
  return std::make_unique<LineScores>(run, backend);
}

std::vector<std::string> ranking_columns(std::int64_t top_k) {
  std::vector<std::string> columns{"label", "probability"};
  for (std::int64_t k = 2; k <= top_k; ++k) {
    columns.push_back(fmt::format("label_{}", k));
    columns.push_back(fmt::format("probability_{}", k));
  }
  return columns;
}

std::vector<std::string> ranking_cells(const std::vector<ScoredLabel>& labels, std::int64_t top_k) {
  std::vector<std::string> cells;
  for (const ScoredLabel& l : labels) cells.insert(cells.end(), {l.label, number_cell(l.probability)});
  cells.resize(static_cast<std::size_t>(2 * top_k));
  return cells;
}

void put_ranking(RowWriter::Json& object, const std::vector<ScoredLabel>& labels, std::int64_t top_k) {
  object["label"] = labels.empty() ? RowWriter::Json() : RowWriter::Json(labels[0].label);
  object["probability"] = labels.empty() ? RowWriter::Json() : json_number(labels[0].probability);
  if (top_k < 2) return;
  RowWriter::Json top = RowWriter::Json::array();
  for (const ScoredLabel& l : labels) top.push_back({{"label", l.label}, {"probability", json_number(l.probability)}});
  object["top"] = std::move(top);
}

}  // namespace unroll::cli
