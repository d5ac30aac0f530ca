// SPDX-License-Identifier: Apache-2.0
// Ready-made tasks: language modeling, forecasting, sequence classification, token labeling, sequence-to-sequence
// translation, summarization and document classification. Each reads its data from a string or from a file. Above
// `memory_limit` bytes (0: no limit) a file is streamed: a batch reads its records when needed, and at most 64 bytes
// per record stay in memory. Option fields have the names of the config keys.
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
#include "unroll/predict.h"
#include "unroll/stream.h"
#include "unroll/trainer.h"
#include "unroll/vfs.h"

namespace unroll {

// Metadata of a trained model's file. Keys that describe the data a task was trained on, so that new files can be
// read without it (lists have one entry per line; a newline in an entry is \n, a backslash \\):
//   task                           language_model, forecast, classify, label, translate, summarize, document
//   classify   columns, label      list of feature columns in order; label column. Names, or numbers without a header
//              header, separator   "1" or "0"; one character
//              steps, width        of a row: steps * width features
//              missing             see ClassifyOptions
//              divide, normalize   a number; "1" or "0"
//              mean, deviation     lists of numbers by feature: standardization, and what missing values become; only
//                                  when one of them needs it
//   forecast   window, horizon, difference ("1": changes are modeled), series (how many)
//              column, series.1.column, ...   the columns
//              scaler.mean, scaler.deviation, series.1.scaler.mean, ...   standardization; scaler.H of horizon H
//              header, separator   as above
//              missing             see ForecastOptions
//              date, date_form, date_time, date_step   only with a date column: its name, iso, slashes, dots, month,
//                                  compact or year, "1" with a time of day, and the step: "1 day", "3 months"
//   label, document, classify   labels   list, by class number

// `name` is the file name used in messages. `fitted` is the metadata of a trained model; its vocabulary or normalizer
// is then used, and nothing is fitted to the training set. All functions throw Error(input_file), with the place, on
// invalid data, and Error(usage) on options that do not fit the data. The file must not change while the task exists:
// the next read throws Error(input_file) when its size or modification time differs.

// Where the validation or the test set comes from: a share of the data, or a file of its own, of the same form.
struct SplitSource {
  SplitSource(double of_data) : share(of_data) {}
  SplitSource(std::shared_ptr<const Vfs::Reader> own_file, std::string file_name)
      : file(std::move(own_file)), name(std::move(file_name)) {}
  double share = 0;
  std::shared_ptr<const Vfs::Reader> file = {};  // takes the place of a share
  std::string name = {};                         // of the file, for messages
};
UNROLL_API SplitSource split_from_text(std::string text, std::string name);

// Predicts the next token. A batch holds B contiguous streams, read in windows of T steps with carried state. Metrics:
// perplexity per token and bits_per_character. Only bits_per_character is comparable between tokenizers; word models do
// not have it, because unknown words have no length. The test set is the last share of the text, the validation set the
// share before it; the carried state starts from zeros at the start of each split.
struct LanguageModelOptions {
  RecurrentModelOptions model;
  std::string tokens = "characters";  // bytes, characters, words, bpe (subwords)
  std::int64_t vocabulary = 10000;    // words, bpe: maximum vocabulary size
  std::int64_t min_count = 2;         // words, bpe: minimum frequency of a token
  double label_smoothing = 0;
  std::int64_t embedding = 64;
  bool tied = false;                  // share the weight of the embedding with the output layer, see tied_linear_layer
  std::int64_t batch = 32;
  std::int64_t steps = 64;
  // Groups of `batch` streams each that several ranks share; TrainerOptions::accumulate must be the same number.
  std::int64_t shards = 1;
  SplitSource validation = 0.1;
  SplitSource test = 0.1;
  std::int64_t evaluation_batch = 8;  // streams into which the evaluation text is divided
  // A token that starts every document. The carried state is reset before it, so no information crosses documents.
  // Empty: the text is one document.
  std::string document_start = {};
  // Start each window from the final state of the previous window. False: start from zeros, also in evaluation.
  bool carry_state = true;
  // Files only: maximum bytes of tokens in memory; 0: no limit. A longer text is read again in blocks, which gives the
  // same batches. Only the current block of each stream and an index of the blocks stay in memory.
  std::size_t memory_limit = 0;
};
UNROLL_API std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options, std::string_view text,
                                                           const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options,
                                                           std::shared_ptr<const Vfs::Reader> file,
                                                           const std::string& name, const Metadata& fitted = {});

// Predicts the next `horizon` values of each column from a window of all columns. A missing value is never a target.
// Rows before the first value of every column are skipped. With a date column rows must be in order and a whole number
// of steps apart; the most frequent distance of neighbors is the step; rows of missing dates are missing values.
// Metrics over all columns: mae and rmse in the units of the data, and mase. mase is mae divided by the training error
// of the one-step seasonal naive forecast (Hyndman & Koehler 2006), per column. With several columns each metric is
// also reported per column as "mae.NAME"; across columns with different units only mase is meaningful.
// Baselines, per column: persistence, seasonal_naive, and linear_ar, an autoregression of order
// `window` fitted by least squares (with `difference`: ARIMA(window, 1, 0)). linear_ar feeds its own predictions back.
struct ForecastOptions {
  RecurrentModelOptions model;
  std::string column;              // empty: the last column
  std::vector<std::string> columns = {};  // several columns by name or number, instead of `column`
  std::string date = {};           // date column; empty: the first other column with a date in its first row; "none"
  std::string header = "auto";     // as in ClassifyOptions
  std::string separator = {};
  // What a missing value or date becomes where it is an input. "previous": the last value. "interpolate": a value on a
  // line between its neighbors within the window; behind the last one, which may not look ahead, the last value.
  // "error": none may be missing.
  std::string missing = "previous";
  std::int64_t window = 52;
  std::int64_t horizon = 1;
  std::int64_t stride = 1;  // distance between training windows, in values; validation and test use every window
  std::int64_t period = 52;        // season length of seasonal_naive, in values
  bool difference = false;         // model changes between values; predict the change from the window's last value
  std::int64_t batch = 32;
  SplitSource validation = 0.1;    // shares of the series, in time order: train, validation, test
  SplitSource test = 0.2;          // a file of its own is a series of its own, with the same columns
  std::size_t memory_limit = 0;
};
UNROLL_API std::shared_ptr<const Task> make_forecast(const ForecastOptions& options, std::string_view csv,
                                                     const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_forecast(const ForecastOptions& options,
                                                     std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                     const Metadata& fitted = {});

// Classifies each row of a table as a sequence: its feature columns, in `steps` steps of equal width. The label is a
// text or a number; classes are numbered in its order (of numbers by value, of texts by bytes). Metrics: accuracy,
// f1_micro, f1_macro. Baseline: most_frequent. Rows are assigned to the splits by split_seed.
struct ClassifyOptions {
  RecurrentModelOptions model;
  std::string pooling = "final";   // of the outputs over time: final, mean, max, attention
  double label_smoothing = 0;
  std::string label = {};                 // label column by name or number; empty: the last column
  std::vector<std::string> columns = {};  // feature columns by name or number; empty: all other columns
  std::string header = "auto";     // auto, yes, no: whether the first line has the names of the columns
  std::string separator = {};      // of cells: one character; empty: tab, semicolon or comma, found in the first line
  // Missing features: "error"; "previous" and "interpolate" fill along the steps of a row, "mean" with the mean of the
  // training set, which the other two use where a row has nothing to fill from. A missing label is an error.
  std::string missing = "error";
  std::int64_t steps = 8;          // 0: each feature is a step
  double divide = 1;               // divide all values by this
  bool normalize = false;          // standardize each feature with its mean and deviation in the training set, instead
  std::int64_t batch = 32;
  SplitSource validation = 0.1;
  SplitSource test = 0.2;
  std::uint64_t split_seed = 0;
  std::size_t memory_limit = 0;
};
UNROLL_API std::shared_ptr<const Task> make_classify(const ClassifyOptions& options, std::string_view csv,
                                                     const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_classify(const ClassifyOptions& options,
                                                     std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                     const Metadata& fitted = {});

// Options shared by the tasks on rows of text.
struct TextRowsOptions {
  RecurrentModelOptions model = {.bidirectional = true};
  std::int64_t embedding = 64;
  std::int64_t vocabulary = 10000;  // maximum vocabulary size: the most frequent tokens of the training set
  std::int64_t min_count = 2;       // minimum frequency; rarer tokens map to the unknown token
  double label_smoothing = 0;
  std::int64_t batch = 32;
  // maximum tokens per batch, padding included; a longer row is a batch of its own; 0: no limit
  std::int64_t batch_tokens = 0;
  SplitSource validation = 0.1;     // shares of the rows, or files
  SplitSource test = 0.2;
  std::uint64_t split_seed = 0;
  std::size_t memory_limit = 0;
};

// Assigns a label to every token of a sentence. The file has one `token<TAB>label` line per token and an empty line
// after each sentence. Batches group sentences of similar length; padding changes neither the loss nor the gradient.
// Sentences are assigned to the splits by split_seed. Metrics: accuracy, f1_micro, f1_macro. Baselines: most_frequent
// (one label for everything) and most_frequent_of_token (each token's most frequent label in the training set).
struct LabelOptions : TextRowsOptions {
  std::string tokens = "words";    // how Labeller::cut tokenizes a line: words (separated by blanks), characters
  std::string outside;             // a label that F1 ignores, such as O; empty: none
  std::string output = "softmax";  // softmax: independent labels; crf: one score for the whole sentence, see crf_loss
};
UNROLL_API std::shared_ptr<const Task> make_label(const LabelOptions& options, std::string_view text,
                                                  const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_label(const LabelOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                                  const std::string& name, const Metadata& fitted = {});

// Classifies documents. The file has one `label<TAB>text` line per document, or it is a CSV. Recurrent layers over the
// words of a sentence are pooled to a sentence vector; recurrent layers over the sentence vectors are pooled to a
// document vector. With pooling "attention" it is a hierarchical attention network (Yang et al. 2016). A sentence ends
// after a word that ends in . ! or ?. A document has up to 256 sentences, a sentence up to 256 words. Words are
// separated by blanks, lowercased, without leading and trailing punctuation. Metrics: accuracy, f1_micro, f1_macro.
// Baselines: most_frequent and naive_bayes (multinomial over words, add-one smoothing).
struct DocumentOptions : TextRowsOptions {  // the model options apply to words and to sentences
  DocumentOptions() { batch = 16; }
  std::string pooling = "attention";  // over words and over sentences: final, mean, max, attention
  // Columns by name or number, "first" or "last"; empty: those that the header calls label and text, else the first and
  // the second one.
  std::string label, text;
  std::string header = "auto";  // auto: the first line has the names of the columns when it says label or text
  std::string separator;        // empty: tab; of a file that ends in .csv or has such a header semicolon or comma
};
UNROLL_API std::shared_ptr<const Task> make_document(const DocumentOptions& options, std::string_view text,
                                                     const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const Task> make_document(const DocumentOptions& options,
                                                     std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                     const Metadata& fitted = {});

// What the decoder reads in training: the true previous token (teacher forcing) or, for a share of the tokens, what the
// model predicts (scheduled sampling).
struct SamplingOptions {
  double scheduled_sampling = 0;  // maximum share s of decoder inputs that are its own predictions
  // The share at batch i, with n = sampling_batches (Bengio et al. 2015, section 2.4; their e_i = 1 - share / s):
  //   constant         s
  //   linear           s min(i / n, 1)
  //   exponential      s (1 - e^(-i / n))
  //   inverse-sigmoid  s (1 - n / (n + e^(i / n)))
  std::string sampling_schedule = "constant";
  std::int64_t sampling_batches = 1000;
};

// The decoder of a task that writes a text for each text.
struct DecoderOptions : SamplingOptions {
  std::string attention = "additive";  // dot, additive
  // Each step of the decoder reads the context that the step before attended to (Luong et al. 2015, section 3.3); the
  // decoder then has one layer. Without it all steps of a target are computed at once.
  bool input_feeding = false;
  bool pointer = false;        // copy words of the source (See, Liu, Manning 2017, section 2.2)
  bool coverage = false;       // the attention reads the sum of its past weights (section 2.3); with input_feeding
  double coverage_weight = 1;  // lambda of eq. 13; only with coverage
  bool tied = false;           // share the weight of the decoder's embedding with its output layer
};

// Sequence-to-sequence model: maps a line of text to another line. The file has one `source<TAB>target` pair per line,
// or it is a CSV with these two columns, with a header or without.
// An encoder reads the source. A decoder with attention over the encoder outputs writes the target. In training the
// decoder reads the true previous token (teacher forcing) or, with scheduled_sampling, its own prediction. Metrics:
// token_accuracy and perplexity, p_gen with a pointer and coverage_loss, all with teacher forcing; use Translator and
// text_scores to evaluate free decoding. Pairs are assigned to the splits by split_seed. The decoder has the encoder's
// options, but reads in one direction. A word that is copied has its number in the target vocabulary or, where that
// lacks it, one of its own.
struct TranslateOptions : TextRowsOptions, DecoderOptions {
  std::string tokens = "characters";  // bytes, characters, words, bpe; sources and targets have separate vocabularies
};
// A task that writes a text for each text.
class UNROLL_API PairTask : public Task {
 public:
  struct Pair {
    std::string source, target;
  };
  virtual void for_each_pair(Split split, const std::function<void(const Pair&)>& take) const = 0;
};
UNROLL_API std::shared_ptr<const PairTask> make_translate(const TranslateOptions& options, std::string_view text,
                                                          const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const PairTask> make_translate(const TranslateOptions& options,
                                                          std::shared_ptr<const Vfs::Reader> file,
                                                          const std::string& name, const Metadata& fitted = {});

// Pointer-generator summarizer (See, Liu, Manning 2017): an encoder reads a text; each step of the decoder attends to
// it, and writes a word of the vocabulary or copies a word of the text, also one that the vocabulary lacks. The file
// has a `text<TAB>summary` pair per line, or is a CSV. Sources and targets share a vocabulary. Metrics, with teacher
// forcing: perplexity per token; p_gen, the mean probability of writing from the vocabulary; coverage_loss. Use
// Summarizer and text_scores to evaluate free decoding. Rows are assigned to the splits by a column or by split_seed.
struct SummarizeOptions : TextRowsOptions, DecoderOptions {
  SummarizeOptions() { input_feeding = pointer = true; }
  std::string tokens = "words";      // bytes, characters, words, bpe
  bool lowercase = false;            // A to Z in lower case, in sources and targets
  std::string source, target;        // columns by name or number; empty: as for PairsFormat
  std::string split;                 // column whose cells are train, validation or test; empty: none
  std::int64_t source_tokens = 400;  // a longer source is cut
  std::int64_t target_tokens = 100;  // a longer target is cut, and none is decoded beyond this length
  // Source tokens that the encoder reads at a time, each chunk from a zero state; the decoder attends to all. 0: whole.
  std::int64_t chunk = 0;
  bool shared_embedding = true;      // encoder and decoder have one embedding
};
UNROLL_API std::shared_ptr<const PairTask> make_summarize(const SummarizeOptions& options, std::string_view text,
                                                          const std::string& name, const Metadata& fitted = {});
UNROLL_API std::shared_ptr<const PairTask> make_summarize(const SummarizeOptions& options,
                                                          std::shared_ptr<const Vfs::Reader> file,
                                                          const std::string& name, const Metadata& fitted = {});

// Builds a streaming model from the metadata of a checkpoint. Use it with the parameters of that checkpoint.
//   language model  ids [T,B] -> logits [T,B,V] of the next token
//   classify        x [T,B,width] -> logits [T,B,classes] after each step
//   forecast        x [T,B,S] in the units of the S columns -> [T,B,horizon*S]: all columns one step ahead, then two
//                   steps ahead, ... Training used windows; a stream continues without limit.
// Throws Error(input_file) on incomplete metadata and Error(unsupported) for a bidirectional model.
UNROLL_API StreamModel task_stream(const Metadata& metadata);

struct GenerateOptions {
  std::string prompt = "\n";
  std::int64_t length = 400;  // tokens
  double temperature = 0.8;   // 0: always the most likely token
  std::int64_t top_k = 0;     // sample from the k most likely tokens; 0: all
  // nucleus sampling: from the smallest set whose probabilities sum to top_p (Holtzman et al. 2020)
  double top_p = 1;
  std::uint64_t seed = 0;
};
// Samples text from a language model, one token at a time with carried state. `metadata` and `parameters` come from its
// checkpoint, or from its task and trainer. `sink` receives each token. A bytes or bpe token may be a part of a UTF-8
// character.
UNROLL_API void generate(const Metadata& metadata, const TensorMap& parameters, Backend& backend,
                         const GenerateOptions& options, const std::function<void(std::string_view)>& sink);

}  // namespace unroll
