// SPDX-License-Identifier: Apache-2.0
// Predictions of trained models. Each class takes the metadata and the parameters of a checkpoint, or those of a task
// and its trainer, and a backend that must outlive it. Constructors throw Error(usage) when the model is of another
// task and Error(input_file) when metadata and parameters do not fit together.
//
// `predict` takes many inputs and returns one result for each, in the same order. Inputs of like length run together; a
// result is that of the input by itself, within rounding. A program is compiled for each padded length and batch size,
// and the last used ones are kept. An empty input has an empty result. An input that is too long throws Error(usage)
// with its index in the span; `check` says beforehand what the model cannot read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/backend.h"
#include "unroll/export.h"
#include "unroll/tensor.h"

namespace unroll {

using Metadata = std::map<std::string, std::string>;

struct ScoredLabel {
  std::string label;
  double probability = 0;
};

// Labels for the tokens of a sentence, from a `label` task.
class UNROLL_API Labeller {
 public:
  Labeller(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~Labeller();
  Labeller(Labeller&&) noexcept;
  Labeller& operator=(Labeller&&) noexcept;

  using Sentence = std::vector<std::string>;
  struct Result {
    std::vector<std::string> labels;    // one for each token
    std::vector<double> probabilities;  // of each of these labels; with a CRF its marginal given the whole sentence
    double probability = 1;             // of all labels together
    std::int64_t unknown = 0;           // tokens outside the vocabulary
  };
  const std::vector<std::string>& labels() const;
  // Splits a line of plain text into tokens.
  Sentence cut(std::string_view line) const;
  void check(const Sentence& sentence) const;  // throws Error(usage) above 4096 tokens
  std::vector<Result> predict(std::span<const Sentence> sentences);
  std::vector<std::string> label(std::span<const std::string> tokens);  // of one sentence

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Labels for documents, from a `document` task.
class UNROLL_API DocumentReader {
 public:
  DocumentReader(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~DocumentReader();
  DocumentReader(DocumentReader&&) noexcept;
  DocumentReader& operator=(DocumentReader&&) noexcept;

  struct Result {
    std::vector<ScoredLabel> labels;       // the most probable first; none for a text without a word
    std::int64_t words = 0, unknown = 0;   // unknown: words outside the vocabulary
  };
  const std::vector<std::string>& labels() const;
  void check(std::string_view text) const;  // throws Error(usage) above 256 sentences, or 256 words in a sentence
  // At most `top_k` labels for each text; 0: all.
  std::vector<Result> predict(std::span<const std::string> texts, std::int64_t top_k = 1);
  std::string label(std::string_view text);  // of one text; "" for a text without a word

  // How much the model attends to each sentence of the text and to each word in it. Without sentences when the model
  // pools in another way than by attention, or the text has no word.
  struct Attention {
    struct Sentence {
      float weight = 0;                // of all sentences; they sum to 1
      std::vector<std::string> words;  // as the model reads them, in lower case
      std::vector<float> weights;      // of each word; they sum to 1
    };
    std::vector<Sentence> sentences;
  };
  Attention attention(std::string_view text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct DecodeOptions {
  std::int64_t beam = 1;             // hypotheses kept; 1: greedy decoding
  double length_penalty = 0;         // alpha of Wu et al. 2016, eq. 14; above 0 for longer targets
  std::int64_t no_repeat_ngram = 0;  // no n-gram of this size occurs twice; 0: they may
  std::int64_t min_length = 0;       // tokens
  std::int64_t max_length = 0;  // tokens; 0: translate: twice the source's and 20; summarize: target_tokens of training
  // beta of Wu et al. 2016, eq. 14; above 0 for targets that cover more of the source. It counts where a text ends.
  double coverage_penalty = 0;
};

// A text that a search wrote.
struct ScoredText {
  std::string text;
  double log_probability = 0;  // of the text and its end, natural logarithm
  double score = 0;            // the same with the penalties of DecodeOptions
};

// How much each written token attends to each source token; rows sum to 1.
struct WrittenAttention {
  std::vector<std::string> source, target;  // tokens as text; "" for the end of the target
  std::vector<float> weights;               // [target, source]
  std::vector<float> p_gen;                 // [target]: that a token is not copied; empty without a pointer
};

// Targets for source lines, from a `translate` task. With a pointer, words of the source that the target vocabulary
// lacks can be copied, and the unknown token is never written.
class UNROLL_API Translator {
 public:
  Translator(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~Translator();
  Translator(Translator&&) noexcept;
  Translator& operator=(Translator&&) noexcept;

  struct Result {
    std::string text;                      // the best one
    double log_probability = 0;            // of the text and its end, natural logarithm, without a length penalty
    std::vector<ScoredText> targets;       // at most `beam`, the best first; none for a source without a token
    std::int64_t tokens = 0, unknown = 0;  // of the source
  };
  void check(std::string_view source) const;  // throws Error(usage) above 1024 tokens
  std::vector<Result> predict(std::span<const std::string> sources, const DecodeOptions& options = {});
  std::string translate(std::string_view source, const DecodeOptions& options = {});  // of one source

  using Attention = WrittenAttention;
  Attention attention(std::string_view source, std::string_view target);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Summaries of texts, from a `summarize` task. Words of the source that the vocabulary lacks can be copied; the unknown
// token is never written.
class UNROLL_API Summarizer {
 public:
  Summarizer(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~Summarizer();
  Summarizer(Summarizer&&) noexcept;
  Summarizer& operator=(Summarizer&&) noexcept;

  using Summary = ScoredText;
  struct Result {
    std::vector<Summary> summaries;        // at most `beam`, the best first; none for a text without a token
    std::int64_t tokens = 0, unknown = 0;  // of the source, as far as it is read
    std::int64_t cut = 0;                  // tokens beyond the source_tokens of training, which are not read
  };
  void check(std::string_view source) const;  // throws Error(usage) on a text that is not UTF-8
  std::vector<Result> predict(std::span<const std::string> sources, const DecodeOptions& options = {});
  std::string summarize(std::string_view source, const DecodeOptions& options = {});  // the best one of one source

  using Attention = WrittenAttention;
  Attention attention(std::string_view source, std::string_view summary);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Classes of sequences, from a `classify` task. Bidirectional models and every pooling are supported.
class UNROLL_API Classifier {
 public:
  Classifier(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~Classifier();
  Classifier(Classifier&&) noexcept;
  Classifier& operator=(Classifier&&) noexcept;

  const std::vector<std::string>& labels() const;
  std::int64_t steps() const;  // T
  std::int64_t width() const;  // I, values of a step
  // T * I values as they stand in the data, step by step. NaN is a missing value, which is filled as in training;
  // a model trained with missing = "error" refuses it.
  using Row = std::vector<double>;
  // At most `top_k` labels for each row, the most probable first; 0: all. Throws Error(usage) on another number of
  // values and on infinite ones.
  std::vector<std::vector<ScoredLabel>> predict(std::span<const Row> rows, std::int64_t top_k = 1);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The next values of S series, from a `forecast` task, in the units of the columns.
class UNROLL_API Forecaster {
 public:
  Forecaster(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~Forecaster();
  Forecaster(Forecaster&&) noexcept;
  Forecaster& operator=(Forecaster&&) noexcept;

  const std::vector<std::string>& columns() const;  // S; "" for the only one of a model that does not name it
  std::int64_t horizon() const;  // steps that the model forecasts at once
  std::int64_t history() const;  // rows that it reads: its window, and one more for a model of differences
  using Values = std::vector<double>;  // [rows, S], oldest first
  // Each history has history() rows or more; the last ones are read and must be finite. The result has `steps` rows,
  // 0: horizon(). Beyond the horizon the model reads its own forecasts. Throws Error(usage) on a shorter history.
  std::vector<Values> predict(std::span<const Values> histories, std::int64_t steps = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The probability of lines of text under a language model. Each line is read on its own after a line break, or after
// the model's document start; where the vocabulary has neither, its first token is not scored.
class UNROLL_API TextScorer {
 public:
  TextScorer(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~TextScorer();
  TextScorer(TextScorer&&) noexcept;
  TextScorer& operator=(TextScorer&&) noexcept;

  struct Result {
    std::int64_t tokens = 0, unknown = 0;
    std::int64_t scored = 0;      // tokens whose probability counts
    std::int64_t characters = 0;  // in the scored tokens; 0 for models of words, whose unknown word has no length
    double log_probability = 0;   // of the scored tokens, natural logarithm
    double perplexity() const;    // exp(-log_probability / scored), NaN without a scored token
    double bits_per_character() const;  // NaN without a character
  };
  void check(std::string_view line) const;  // throws Error(usage) when it is not UTF-8 and the tokens are characters
  std::vector<Result> predict(std::span<const std::string> lines);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The tokens of a text that the vocabulary of a language model lacks, each once.
UNROLL_API std::vector<std::string> unknown_tokens(const Metadata& metadata, std::string_view text);

}  // namespace unroll
