// SPDX-License-Identifier: Apache-2.0
// Classification of documents.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/support/hidden_state.h"
#include "unroll/tasks/attention.h"
#include "unroll/tasks/shared.h"

namespace unroll {

// Network: ids [W,S*B], words i32 [S*B], sentences i32 [B] -> probabilities [B,K]. Sentence s of document b is column s
// * B + b; `words` counts words, `sentences` sentences. Metadata: `labels` lists the labels by class number.

// Classifies documents. The file has one `label<TAB>text` line per document, or it is a CSV. Recurrent layers over the
// words of a sentence are pooled to a sentence vector; recurrent layers over the sentence vectors are pooled to a
// document vector. With pooling "attention" it is a hierarchical attention network (Yang et al. 2016). A sentence ends
// after a word that ends in . ! or ?. A document has up to 256 sentences, a sentence up to 256 words. Words are
// separated by blanks, lowercased, without leading and trailing punctuation. Metrics: accuracy, f1_micro, f1_macro.
// Baselines: most_frequent and naive_bayes (multinomial over words, add-one smoothing).
struct DocumentOptions : TextRowsOptions {  // the model options apply to both levels, words and sentences
  DocumentOptions() { batch = 16; }
  std::string pooling = "attention";  // over words and over sentences
  std::string label, text;
  std::string header = "auto";
  std::string separator;
};
template <>
inline constexpr auto k_options<DocumentOptions> = std::array{
    option<&DocumentOptions::label>(keys::label),
    option<&DocumentOptions::text>(
        {"data.text", any_value,
         "text column: its name or number, first or last; empty: the one whose header is text or similar, else the "
         "second"}),
    option<&DocumentOptions::header>(keys::header),
    option<&DocumentOptions::separator>(keys::separator),
    option<&DocumentOptions::pooling>(keys::pooling),
};
UNROLL_API std::shared_ptr<const Task> make_document(const DocumentOptions& options, DataSource data,
                                                     const std::string& name, const Metadata& fitted = {});
UNROLL_API DataCheck check_data(const DocumentOptions& options, DataSource data, const std::string& name);

// Predicts labels of documents with a `document` model.
class UNROLL_API DocumentClassifier {
 public:
  DocumentClassifier(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend);

  struct Result {
    std::vector<ScoredLabel> labels;       // the most probable first; none for a text without words
    std::int64_t words = 0, unknown = 0;   // unknown: words outside the vocabulary
  };
  const std::vector<std::string>& labels() const;
  void check(std::string_view text) const;  // throws Error(usage) above 256 sentences, or 256 words in a sentence
  // Returns at most `top_k` labels per text; 0: all.
  std::vector<Result> predict(std::span<const std::string> texts, std::int64_t top_k = 1);
  std::string label(std::string_view text);  // the label of one text; "" for a text without words

  // Returns the attention weights of each sentence and of each word in it. Returns no sentences if the text has no
  // words or the model uses another pooling.
  using Attention = TextAttention;
  Attention attention(std::string_view text);

 private:
  struct State;
  HiddenState<State> state_;
};

}  // namespace unroll
