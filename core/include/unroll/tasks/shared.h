// SPDX-License-Identifier: Apache-2.0
// Options and results shared by the tasks: sources of splits, options of table rows, text rows and decoders, and
// decoded texts. unroll/tasks/tasks.h lists the tasks.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "unroll/data/data_check.h"
#include "unroll/model/model.h"
#include "unroll/passes/backend.h"
#include "unroll/support/vfs.h"
#include "unroll/train/trainer.h"

namespace unroll {

using Metadata = std::map<std::string, std::string>;

// The source of a validation or test set: a share of the data, or a separate file of the same form.
struct SplitSource {
  SplitSource(double of_data) : share(of_data) {}
  SplitSource(std::shared_ptr<const Vfs::Reader> own_file, std::string file_name)
      : file(std::move(own_file)), name(std::move(file_name)) {}
  double share = 0;
  std::shared_ptr<const Vfs::Reader> file = {};  // replaces the share
  std::string name = {};                         // of the file, for messages
};
UNROLL_API SplitSource split_from_text(std::string text, std::string name);

// The data of a task: a file, or a text in memory. The text is not read after the function returns.
struct UNROLL_API DataSource {
  template <std::convertible_to<std::shared_ptr<const Vfs::Reader>> File>
  DataSource(File file_) : file(std::move(file_)) {}
  template <std::convertible_to<std::string_view> Text>
  DataSource(const Text& text) : DataSource(std::string_view(text)) {}
  DataSource(std::string_view text);
  std::shared_ptr<const Vfs::Reader> file;
  bool in_memory = false;
  std::size_t memory_limit(std::size_t of_files) const { return in_memory ? 0 : of_files; }
};

// Option keys shared by several structs below and in the task headers.
namespace keys {
inline constexpr OptionKey tokens = {"data.tokens", one_of("bytes|characters|words|bpe"),
                                     "tokenizer; label: words or characters, for lines given to `predict`"};
inline constexpr OptionKey vocabulary = {"data.vocabulary", between(1, 1048576),
                                         "words, bpe: maximum vocabulary size"};
inline constexpr OptionKey min_count = {
    "data.min_count", from(1), "words, bpe: minimum count in the training set; rarer words become the unknown token"};
inline constexpr OptionKey steps = {
    "data.steps", between(0, 1e5),
    "language-model: T, tokens per window of truncated backpropagation; classify, regress: time steps per row, 0: one "
    "per feature"};
inline constexpr OptionKey label = {
    "data.label", any_value,
    "label column: its name or number; document: also first or last; empty: classify: the last one, document: the one "
    "whose header is label or similar, else the first"};
inline constexpr OptionKey header = {
    "data.header", one_of("auto|yes|no"),
    "whether the first line has column names; auto: the first rows decide; document: yes if it names a label and a "
    "text column"};
inline constexpr OptionKey separator = {
    "data.separator", any_value,
    "cell separator: one character or tab; empty: the first of tab, semicolon and comma that the first line contains; "
    "document: tab, unless the file is a CSV"};
inline constexpr OptionKey decimal = {
    "data.decimal", one_of("auto|.|,"), "decimal mark of numbers; auto: a point, unless the first rows show a comma"};
inline constexpr OptionKey thousands = {
    "data.thousands", one_of("auto|none|space|,|.|'|_"),
    "mark between the thousands of a number; auto: none, unless the first rows show one"};
inline constexpr OptionKey missing = {
    "data.missing", one_of("error|previous|interpolate|mean"),
    "missing values: refuse them (error), repeat the previous value, interpolate between the neighbors, or (classify, "
    "regress) use the training mean; forecast fills inputs only, never targets"};
inline constexpr OptionKey missing_values = {
    "data.missing_values", any_value,
    "words that stand for a missing number, in any letter case; an empty cell and NaN always do. classify: a text "
    "label that is one of the words in the default is a class"};
inline constexpr OptionKey columns = {
    "data.columns", any_value,
    "forecast: columns of several series, instead of data.column; classify, regress: feature columns, or ranges such "
    "as a..f and 2..252, empty: all others"};
inline constexpr OptionKey split_seed = {"data.split_seed", from(0),
                                         "seed of the random assignment of rows to the splits"};
inline constexpr OptionKey validation = {
    "data.validation", between(0, 0.9),
    "validation set: a share of the data, or a file; a text or series is cut in order: training, validation, test",
    AtResume::free_file};
inline constexpr OptionKey test = {
    "data.test", between(0, 0.9), "test set: a share of the data, or a file; of a text or series the last part",
    AtResume::free_file};
inline constexpr OptionKey embedding = {"model.embedding", between(1, 1e6), "width of the token embedding"};
inline constexpr OptionKey tied = {
    "model.tied", any_value,
    "share the weight of the (decoder's) embedding with the output layer; language-model: the input of that layer must "
    "have the same width"};
inline constexpr OptionKey pooling = {
    "model.pooling", one_of("final|mean|max|attention"),
    "pooling over time: last output, mean, maximum, or attention-weighted mean"};
inline constexpr OptionKey batch = {"train.batch", between(1, 1e5), "sequences per batch (B)"};
inline constexpr OptionKey label_smoothing = {
    "train.label_smoothing", between(0, 0.99), "share of each target that is distributed over all classes, in training",
    AtResume::free};
}  // namespace keys

// Returns the words for missing numbers that common programs write.
inline std::vector<std::string> default_missing_values() {
  return {"NA", "N/A", "#N/A", "<NA>", "null", "None", "?"};
}

// Options shared by the tasks on table rows. A row is a sequence: its feature columns, in `steps` steps of equal width.
// Rows are assigned to the splits by split_seed.
struct TableRowsOptions {
  RecurrentModelOptions model;
  std::string pooling = "final";
  std::vector<std::string> columns = {};  // feature columns by name or number; empty: all other columns
  std::string header = "auto";
  std::string separator = {};
  std::string decimal = "auto";
  std::string thousands = "auto";
  // Missing features: "error" refuses them. "previous" and "interpolate" fill along the steps of a row. "mean" uses the
  // training mean; the other two also use it if a row has no value to fill from.
  std::string missing = "error";
  std::vector<std::string> missing_values = default_missing_values();
  std::int64_t steps = 0;
  double divide = 1;
  bool normalize = false;
  std::int64_t batch = 32;
  SplitSource validation = 0.1;
  SplitSource test = 0.2;
  std::uint64_t split_seed = 0;
  std::size_t memory_limit = 0;
};
template <>
inline constexpr auto k_options<TableRowsOptions> = std::array{
    option<&TableRowsOptions::steps>(keys::steps),
    option<&TableRowsOptions::columns>(keys::columns),
    option<&TableRowsOptions::header>(keys::header),
    option<&TableRowsOptions::separator>(keys::separator),
    option<&TableRowsOptions::decimal>(keys::decimal),
    option<&TableRowsOptions::thousands>(keys::thousands),
    option<&TableRowsOptions::missing>(keys::missing),
    option<&TableRowsOptions::missing_values>(keys::missing_values),
    option<&TableRowsOptions::divide>({"data.divide", between(1e-30, 1e30), "divide all features by this number"},
                                      "data.normalize = false"),
    option<&TableRowsOptions::normalize>(
        {"data.normalize", any_value,
         "standardize each feature: subtract its mean in the training set, divide by its standard deviation"}),
    option<&TableRowsOptions::split_seed>(keys::split_seed),
    option<&TableRowsOptions::validation>(keys::validation),
    option<&TableRowsOptions::test>(keys::test),
    option<&TableRowsOptions::pooling>(keys::pooling),
    option<&TableRowsOptions::batch>(keys::batch),
};

// Options shared by the tasks on rows of text.
struct TextRowsOptions {
  RecurrentModelOptions model = {.bidirectional = true};
  std::int64_t embedding = 64;
  std::int64_t vocabulary = 10000;  // the most frequent tokens of the training set
  std::int64_t min_count = 2;
  double label_smoothing = 0;
  std::int64_t batch = 32;
  std::int64_t batch_tokens = 0;  // a longer row is a batch by itself
  SplitSource validation = 0.1;   // shares of the rows, or files
  SplitSource test = 0.2;
  std::uint64_t split_seed = 0;
  std::size_t memory_limit = 0;
};
template <>
inline constexpr auto k_options<TextRowsOptions> = std::array{
    option<&TextRowsOptions::vocabulary>(keys::vocabulary),
    option<&TextRowsOptions::min_count>(keys::min_count),
    option<&TextRowsOptions::split_seed>(keys::split_seed),
    option<&TextRowsOptions::validation>(keys::validation),
    option<&TextRowsOptions::test>(keys::test),
    option<&TextRowsOptions::embedding>(keys::embedding),
    option<&TextRowsOptions::batch>(keys::batch),
    option<&TextRowsOptions::batch_tokens>(
        {"train.batch_tokens", from(0), "maximum tokens per batch, padding included; 0: no limit"}),
    option<&TextRowsOptions::label_smoothing>(keys::label_smoothing),
};

// Inputs of the decoder in training: the true previous token (teacher forcing) or, for a share of the tokens, the
// model's prediction (scheduled sampling).
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
template <>
inline constexpr auto k_options<SamplingOptions> = std::array{
    option<&SamplingOptions::scheduled_sampling>(
        {"train.scheduled_sampling", between(0, 1),
         "share of decoder inputs that are its own predictions instead of the target", AtResume::free}),
    option<&SamplingOptions::sampling_schedule>(
        {"train.sampling_schedule", one_of("constant|linear|exponential|inverse-sigmoid"),
         "how scheduled_sampling grows from 0 to its full share", AtResume::free},
        "train.scheduled_sampling > 0"),
    option<&SamplingOptions::sampling_batches>(
        {"train.sampling_batches", between(1, 2147483646),
         "linear: batches until the full share; exponential, inverse-sigmoid: n in e^(-batch / n)", AtResume::free},
        "train.scheduled_sampling > 0 and train.sampling_schedule = linear|exponential|inverse-sigmoid"),
};

// Options of a decoder that generates a text for each source text.
struct DecoderOptions : SamplingOptions {
  std::string attention = "additive";
  bool input_feeding = false;  // input the previous step's attention context (Luong et al. 2015, section 3.3)
  bool pointer = false;        // See, Liu, Manning 2017, section 2.2
  bool coverage = false;       // section 2.3
  double coverage_weight = 1;  // lambda of eq. 13
  bool tied = false;
};
template <>
inline constexpr auto k_options<DecoderOptions> = std::array{
    option<&DecoderOptions::tied>(keys::tied),
    option<&DecoderOptions::attention>(
        {"model.attention", one_of("dot|additive"), "attention of the decoder over the source"}),
    option<&DecoderOptions::input_feeding>(
        {"model.input_feeding", any_value,
         "each step of the decoder reads the context of the step before, and the decoder has one layer; false: all "
         "steps are computed at once"}),
    option<&DecoderOptions::pointer>(
        {"model.pointer", any_value,
         "pointer-generator: each step may copy a source word, also one that the (target) vocabulary lacks"}),
    option<&DecoderOptions::coverage>(
        {"model.coverage", any_value,
         "the attention reads the sum of its past weights, and a loss penalizes attending twice; needs input_feeding "
         "and additive attention"}),
    option<&DecoderOptions::coverage_weight>(
        {"train.coverage_weight", between(0, 1e3), "with model.coverage: factor of the coverage loss",
         AtResume::free},
        "model.coverage = true"),
};

// Calls visit.operator()<Part>() for each struct that contains the options of a task: the base classes, then the class
// itself.
template <class TaskOptions, class Visit>
void for_each_part(const Visit& visit) {
  const auto visit_base = [&]<class Base>() {
    if constexpr (std::is_base_of_v<Base, TaskOptions>) visit.template operator()<Base>();
  };
  visit_base.template operator()<TableRowsOptions>();
  visit_base.template operator()<TextRowsOptions>();
  visit_base.template operator()<SamplingOptions>();
  visit_base.template operator()<DecoderOptions>();
  visit.template operator()<TaskOptions>();
}

// A task that generates a text for each source text.
class UNROLL_API PairTask : public Task {
 public:
  struct Pair {
    std::string source, target;
  };
  virtual void for_each_pair(Split split, const std::function<void(const Pair&)>& take) const = 0;
};

struct ScoredLabel {
  std::string label;
  double probability = 0;
};

struct DecodeOptions {
  std::int64_t beam = 1;             // hypotheses kept; 1: greedy decoding
  double length_penalty = 0;         // alpha of Wu et al. 2016, eq. 14; values above 0 favor longer targets
  std::int64_t no_repeat_ngram = 0;  // no n-gram of this size repeats; 0: no limit
  std::int64_t min_length = 0;       // tokens
  std::int64_t max_length = 0;  // tokens; 0: translate: twice the source's and 20; summarize: target_tokens of training
  // beta of Wu et al. 2016, eq. 14, applied at the end of a text; above 0 favors targets that cover more of the source.
  double coverage_penalty = 0;
};

// A text generated by a search.
struct ScoredText {
  std::string text;
  double log_probability = 0;  // of the text and its end, natural logarithm
  double score = 0;            // the log probability with the penalties of DecodeOptions
};

}  // namespace unroll
