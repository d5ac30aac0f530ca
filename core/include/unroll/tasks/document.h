// SPDX-License-Identifier: Apache-2.0
// Labels for documents.
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

// Network: ids [W,S*B], words i32 [S*B], sentences i32 [B] -> probabilities [B,K]. Sentence s of document b is column
// s * B + b; `words` counts its words, `sentences` those of a document. Metadata: `labels` lists them by class number.

// Classifies documents. The file has one `label<TAB>text` line per document, or it is a CSV. Recurrent layers over the
// words of a sentence are pooled to a sentence vector; recurrent layers over the sentence vectors are pooled to a
// document vector. With pooling "attention" it is a hierarchical attention network (Yang et al. 2016). A sentence ends
// after a word that ends in . ! or ?. A document has up to 256 sentences, a sentence up to 256 words. Words are
// separated by blanks, lowercased, without leading and trailing punctuation. Metrics: accuracy, f1_micro, f1_macro.
// Baselines: most_frequent and naive_bayes (multinomial over words, add-one smoothing).
struct DocumentOptions : TextRowsOptions {  // the model options apply to words and to sentences
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

// Labels for documents, from a `document` task.
class UNROLL_API DocumentClassifier {
 public:
  DocumentClassifier(const Metadata& metadata, const TensorMap& parameters, Backend& backend);

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
  using Attention = TextAttention;
  Attention attention(std::string_view text);

 private:
  struct State;
  HiddenState<State> state_;
};

}  // namespace unroll
