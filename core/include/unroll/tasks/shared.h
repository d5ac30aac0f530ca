// SPDX-License-Identifier: Apache-2.0
// What the tasks share: where splits come from, options of rows of a table, rows of text and decoders, and what
// predictions are made of. unroll/tasks.h has the tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/backend.h"
#include "unroll/data/data_check.h"
#include "unroll/model.h"
#include "unroll/trainer.h"
#include "unroll/vfs.h"

namespace unroll {

using Metadata = std::map<std::string, std::string>;

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

// Options shared by the tasks on rows of a table, each of which is a sequence: its feature columns, in `steps` steps of
// equal width. Rows are assigned to the splits by split_seed.
struct TableRowsOptions {
  RecurrentModelOptions model;
  std::string pooling = "final";          // of the outputs over time: final, mean, max, attention
  std::vector<std::string> columns = {};  // feature columns by name or number; empty: all other columns
  std::string header = "auto";     // auto, yes, no: whether the first line has the names of the columns
  std::string separator = {};      // of cells: one character; empty: tab, semicolon or comma, found in the first line
  // Missing features: "error"; "previous" and "interpolate" fill along the steps of a row, "mean" with the mean of the
  // training set, which the other two use where a row has nothing to fill from.
  std::string missing = "error";
  std::int64_t steps = 0;          // 0: each feature is a step
  double divide = 1;               // divide all features by this
  bool normalize = false;          // standardize each feature with its mean and deviation in the training set, instead
  std::int64_t batch = 32;
  SplitSource validation = 0.1;
  SplitSource test = 0.2;
  std::uint64_t split_seed = 0;
  std::size_t memory_limit = 0;
};

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

// A task that writes a text for each text.
class UNROLL_API PairTask : public Task {
 public:
  struct Pair {
    std::string source, target;
  };
  virtual void for_each_pair(Split split, const std::function<void(const Pair&)>& take) const = 0;
};

// The findings of a check of a text in memory.
template <class TaskOptions>
DataCheck check_data(const TaskOptions& options, std::string_view text, const std::string& name) {
  return check_data(options, split_from_text(std::string(text), name).file, name);
}

struct ScoredLabel {
  std::string label;
  double probability = 0;
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

}  // namespace unroll
