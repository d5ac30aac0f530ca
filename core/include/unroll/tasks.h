// SPDX-License-Identifier: Apache-2.0
// Ready tasks: a language model, forecasting of series, classifying rows as sequences, labelling tokens, lines into
// lines, labelling documents. Each takes the text of its data, or the file, which may be larger than memory: above
// `memory_limit` bytes (0: never) its records are read again whenever a batch has them, and of each at most 64 bytes
// are held. Option fields have the names of the config keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/backend.h"
#include "unroll/model.h"
#include "unroll/stream.h"
#include "unroll/trainer.h"
#include "unroll/vfs.h"

namespace unroll {

using Metadata = std::map<std::string, std::string>;

// `name` is the file's name for messages. `fitted` is the metadata of a trained model whose vocabulary or scaler is to
// be used instead of one fitted on the training split here. All throw Error(input_file) with the place on bad data and
// Error(usage) on options that do not fit it. A file must not change while the task is used; where its size or time
// does, what reads it next throws Error(input_file).

// Predicts the next token; B contiguous streams are read in windows of T steps with carried state. Metrics perplexity
// (of a token) and, except for words, of which unknown ones have no length, bits_per_character, which is comparable
// between kinds of tokens. The last held_out of the text is both the validation and the test split.
struct LanguageModelOptions {
  RecurrentModelOptions model;
  std::string tokens = "characters";  // bytes, characters, words, bpe
  std::int64_t vocabulary = 10000;    // words, bpe: tokens at most
  std::int64_t min_count = 2;         // words, bpe
  double label_smoothing = 0;
  std::int64_t embedding = 64;
  bool tied = false;                  // the output's weight is that of the embedding, see tied_linear_layer
  std::int64_t batch = 32;
  std::int64_t steps = 64;
  double held_out = 0.1;
  std::int64_t evaluation_batch = 8;  // streams the held-out text is cut into
  // One token with which every document begins: the carried state is zero before it, so that nothing of a document is
  // known in the next. Empty: the text is one document.
  std::string document_start = {};
  // A window begins with the state that the one before it left; false: with zeros, in training and in evaluation.
  bool carry_state = true;
  // Of a file: bytes that its tokens may take in memory, 0: any number. A longer text is read again as it is needed, in
  // blocks, with the same batches; what is then held is the last block of each stream and a few numbers of each block.
  std::size_t memory_limit = 0;
};
UNROLL_API std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options, std::string_view text,
                                                           const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options,
                                                           std::shared_ptr<const Vfs::Reader> file,
                                                           const std::string& name, const Metadata& fitted = {});

// Predicts the next values of one column or of several, `horizon` of each at once, from a window of the values of all
// of them before. Metrics over all of these: mae and rmse in the columns' units, and mase, mae divided by that of
// seasonal_naive one value ahead in training (Hyndman & Koehler 2006), each column by its own. Of several columns an
// evaluation has them for each too, as "mae.NAME"; in all, only mase means something where units differ. Baselines on
// the same test split, of each column by itself: persistence, seasonal_naive and linear_ar, an autoregression of order
// `window` (with `difference` an ARIMA(window, 1, 0)) by least squares, which goes on from its own values. A missing
// value is never a target and is read as the last value before it; rows before every column has had a value are left
// out.
struct ForecastOptions {
  RecurrentModelOptions model;
  std::string column;              // empty: the last one
  std::vector<std::string> columns = {};  // several, in the place of `column`; without a header named "1", "2", ...
  std::int64_t window = 52;
  std::int64_t horizon = 1;
  std::int64_t stride = 1;  // values from a window of training to the next; validation and test have every window
  std::int64_t period = 52;        // of seasonal_naive
  bool difference = false;         // read changes, and learn the change from the last value of the window
  std::int64_t batch = 32;
  double validation = 0.1;         // parts of the series, in time order: train, validation, test
  double test = 0.2;
  std::size_t memory_limit = 0;
};
UNROLL_API std::shared_ptr<const Task> make_forecast(const ForecastOptions& options, std::string_view csv,
                                                     const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_forecast(const ForecastOptions& options,
                                                     std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                     const Metadata& fitted = {});

// Classifies each line of a CSV: `steps` steps of equal width, then the label 0, 1, ... in the last column. Metrics
// accuracy, f1_micro and f1_macro. A held_out part of the lines, drawn by split_seed, is both the validation and the
// test split.
struct ClassifyOptions {
  RecurrentModelOptions model;
  std::string pooling = "final";   // of the outputs at all steps: final, mean, max, attention
  double label_smoothing = 0;
  std::int64_t steps = 8;
  double divide = 1;               // values are divided by it
  std::int64_t batch = 32;
  double held_out = 0.2;
  std::uint64_t split_seed = 0;
  std::size_t memory_limit = 0;
};
UNROLL_API std::shared_ptr<const Task> make_classify(const ClassifyOptions& options, std::string_view csv,
                                                     const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_classify(const ClassifyOptions& options,
                                                     std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                     const Metadata& fitted = {});

// What tasks on rows of text have in common.
struct TextRowsOptions {
  RecurrentModelOptions model = {.bidirectional = true};
  std::int64_t embedding = 64;
  std::int64_t vocabulary = 10000;  // tokens with a number of their own at most: the most frequent ones of training
  std::int64_t min_count = 2;       // and those seen so often; the others share one, the unknown token
  double label_smoothing = 0;
  std::int64_t batch = 32;
  std::int64_t batch_tokens = 0;    // of a batch at most, padding among them, a longer row by itself; 0: any number
  double validation = 0.1;          // parts of the rows
  double test = 0.2;
  std::uint64_t split_seed = 0;
  std::size_t memory_limit = 0;
};

// Gives every token of a sentence a label. The file has a line `token<TAB>label` for each token and an empty line after
// each sentence. Sentences are read in batches of like length; what fills a batch up changes neither loss nor gradient.
// Metrics accuracy, f1_micro and f1_macro; baselines most_frequent (one label everywhere) and most_frequent_of_token
// (the one that the token most often has in training). Sentences are drawn into the splits by split_seed.
struct LabelOptions : TextRowsOptions {
  std::string tokens = "words";    // what Labeller::cut makes of a line: words (between blanks), characters
  std::string outside;             // a label that F1 leaves out, such as O; empty: none
  std::string output = "softmax";  // each label by itself; crf: all of a sentence together, see crf_loss
};
UNROLL_API std::shared_ptr<const Task> make_label(const LabelOptions& options, std::string_view text,
                                                  const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_label(const LabelOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                                  const std::string& name, const Metadata& fitted = {});

// A trained labeller: `metadata` and `parameters` are those of its checkpoint, or of its task and trainer. The backend
// must outlive it. Throws Error(usage) when they are of another task, Error(input_file) when they do not fit together.
class UNROLL_API Labeller {
 public:
  Labeller(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~Labeller();
  Labeller(Labeller&&) noexcept;
  Labeller& operator=(Labeller&&) noexcept;
  // A line of plain text as tokens.
  std::vector<std::string> cut(std::string_view line) const;
  // A label for each token. Throws Error(usage) above 4096 tokens.
  std::vector<std::string> label(std::span<const std::string> tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Gives every document a label. The file has a line `label<TAB>text` for each. A hierarchy reads it: recurrent layers
// over the words of each sentence, pooled to one vector a sentence, and recurrent layers over these, pooled to one a
// document (hierarchical attention network, Yang et al. 2016, without attention when pooling is not "attention"). A
// sentence ends behind a word with . ! or ? at its end; of a document more than 256 sentences, and of a sentence more
// than 256 words, are refused. Words are those between blanks in small letters, without what is no letter or digit
// around them. Metrics accuracy, f1_micro and f1_macro; baselines most_frequent and naive_bayes (of words, add-one).
struct DocumentOptions : TextRowsOptions {  // the model is that of words, and again of sentences
  DocumentOptions() { batch = 16; }
  std::string pooling = "attention";  // of words and of sentences: final, mean, max, attention
};
UNROLL_API std::shared_ptr<const Task> make_document(const DocumentOptions& options, std::string_view text,
                                                     const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_document(const DocumentOptions& options,
                                                     std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                     const Metadata& fitted = {});

// A trained reader of documents, as Labeller.
class UNROLL_API DocumentReader {
 public:
  DocumentReader(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~DocumentReader();
  DocumentReader(DocumentReader&&) noexcept;
  DocumentReader& operator=(DocumentReader&&) noexcept;
  // Throws Error(usage) on a text with too many sentences or words; the label of an empty one is "".
  std::string label(std::string_view text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Turns lines into lines. The file has a line `source<TAB>target` each. An encoder reads the source; a decoder with
// attention over what the encoder gave writes the target, in training after the target's own tokens (teacher forcing)
// or some of its own. Metrics token_accuracy and perplexity, both after the right tokens; what it writes by itself is
// what Translator gives and text_scores judges. Pairs are drawn into the splits by split_seed.
// The model is that of the encoder; the decoder's is the same, reading forwards.
struct TranslateOptions : TextRowsOptions {
  std::string attention = "additive";  // dot, additive
  std::string tokens = "characters";   // bytes, characters, words, bpe; of sources and of targets, each with its own
  bool tied = false;                   // the decoder's output weight is that of its embedding
  double scheduled_sampling = 0;       // share s of the decoder's inputs that are its own predictions
  // The share at batch i, with n = sampling_batches (Bengio et al. 2015, section 2.4, whose e_i is 1 - share / s):
  //   constant         s
  //   linear           s min(i / n, 1)
  //   exponential      s (1 - e^(-i / n))
  //   inverse-sigmoid  s (1 - n / (n + e^(i / n)))
  std::string sampling_schedule = "constant";
  std::int64_t sampling_batches = 1000;
};
class UNROLL_API TranslateTask : public Task {
 public:
  struct Pair {
    std::string source, target;
  };
  virtual void for_each_pair(Split split, const std::function<void(const Pair&)>& take) const = 0;
};
UNROLL_API std::shared_ptr<const TranslateTask> make_translate(const TranslateOptions& options, std::string_view text,
                                                               const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const TranslateTask> make_translate(const TranslateOptions& options,
                                                               std::shared_ptr<const Vfs::Reader> file,
                                                               const std::string& name, const Metadata& fitted = {});

struct DecodeOptions {
  std::int64_t beam = 1;             // hypotheses kept; 1: always the likeliest token
  double length_penalty = 0;         // alpha of Wu et al. 2016, eq. 14; above 0 for longer targets
  std::int64_t no_repeat_ngram = 0;  // no n tokens in a row come twice; 0: they may
  std::int64_t max_length = 0;       // tokens; 0: twice the source's and 20
};
// A trained encoder and decoder, as Labeller.
class UNROLL_API Translator {
 public:
  Translator(const Metadata& metadata, const TensorMap& parameters, Backend& backend);
  ~Translator();
  Translator(Translator&&) noexcept;
  Translator& operator=(Translator&&) noexcept;
  // Throws Error(usage) above 1024 tokens and on options out of range.
  std::string translate(std::string_view source, const DecodeOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A trained task as a stream, from the metadata of its checkpoint. Parameters are those of the checkpoint.
//   language model  ids [T,B] -> logits [T,B,V] of the next token
//   classify        x [T,B,width] -> logits [T,B,classes] after each step
//   forecast        x [T,B,S] in the S columns' units -> the next values [T,B,horizon*S], those of one step ahead side
//                   by side, then those of two; training saw windows, a stream goes on
// Throws Error(input_file) on incomplete metadata, Error(unsupported) for a bidirectional model.
UNROLL_API StreamModel task_stream(const Metadata& metadata);

struct GenerateOptions {
  std::string prompt = "\n";
  std::int64_t length = 400;  // tokens
  double temperature = 0.8;   // 0: always the likeliest
  std::int64_t top_k = 0;     // only the so many likeliest tokens; 0: all
  double top_p = 1;           // of those the fewest likeliest whose probabilities sum to it (Holtzman et al. 2020)
  std::uint64_t seed = 0;
};
// Samples from a language model, one step at a time with carried state. `metadata` and `parameters` are those of its
// checkpoint, or of its task and trainer. Each token goes to `sink`, of bytes and bpe
// perhaps a part of a UTF-8 character.
UNROLL_API void generate(const Metadata& metadata, const TensorMap& parameters, Backend& backend,
                         const GenerateOptions& options, const std::function<void(std::string_view)>& sink);

}  // namespace unroll
