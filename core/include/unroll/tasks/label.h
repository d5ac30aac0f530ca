// SPDX-License-Identifier: Apache-2.0
// Labeling of tokens in sentences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/support/hidden_state.h"
#include "unroll/tasks/shared.h"

namespace unroll {

// Network: ids [T,B], lengths [B] -> labels i32 [T,B], and probabilities [T,B,K]; with a CRF scores [T,B,K]. Metadata:
// `labels` lists the labels by class number.

// Assigns a label to every token of a sentence. The file has one `token<TAB>label` line per token and an empty line
// after each sentence. Batches group sentences of similar length; padding changes neither the loss nor the gradient.
// Sentences are assigned to the splits by split_seed. Metrics: accuracy, f1_micro, f1_macro. Baselines: most_frequent
// (one label for everything) and most_frequent_of_token (each token's most frequent label in the training set).
struct LabelOptions : TextRowsOptions {
  std::string tokens = "words";  // tokenization of a line by Labeler::cut: words (separated by blanks), characters
  std::string outside;
  std::string output = "softmax";  // see crf_loss
};
template <>
inline constexpr auto k_options<LabelOptions> = std::array{
    option<&LabelOptions::tokens>(keys::tokens),
    option<&LabelOptions::outside>({"data.outside", any_value, "label that F1 excludes, such as O; empty: none"}),
    option<&LabelOptions::output>(
        {"model.output", one_of("softmax|crf"),
         "softmax: independent labels; crf: a conditional random field over the sentence"}),
};
UNROLL_API std::shared_ptr<const Task> make_label(const LabelOptions& options, DataSource data, const std::string& name,
                                                  const Metadata& fitted = {});
UNROLL_API DataCheck check_data(const LabelOptions& options, DataSource data, const std::string& name);

// Predicts labels of the tokens of a sentence with a `label` model.
class UNROLL_API Labeler {
 public:
  Labeler(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend);

  using Sentence = std::vector<std::string>;
  struct Result {
    std::vector<std::string> labels;    // one for each token
    std::vector<double> probabilities;  // of each of these labels; with a CRF its marginal given the whole sentence
    double probability = 1;             // joint probability of all labels
    std::int64_t unknown = 0;           // tokens outside the vocabulary
  };
  const std::vector<std::string>& labels() const;
  // Splits a line of plain text into tokens.
  Sentence cut(std::string_view line) const;
  void check(const Sentence& sentence) const;  // throws Error(usage) above 4096 tokens
  std::vector<Result> predict(std::span<const Sentence> sentences);
  std::vector<std::string> label(std::span<const std::string> tokens);  // the labels of one sentence

 private:
  struct State;
  HiddenState<State> state_;
};

}  // namespace unroll
