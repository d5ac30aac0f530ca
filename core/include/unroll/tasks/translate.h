// SPDX-License-Identifier: Apache-2.0
// Translation of lines of text.
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

// Network: source [S,B], source_lengths [B], target [T,B] -> log_probabilities [B,T,V] of the next token after each
// target token. The first target token is V - 1, which also ends a text. With `pointer` the outputs are those of
// summarize.

// Sequence-to-sequence model: maps a line of text to another line. The file has one `source<TAB>target` pair per line,
// or it is a CSV with these two columns, with or without a header.
// An encoder reads the source. A decoder with attention over the encoder outputs writes the target. In training the
// decoder reads the true previous token (teacher forcing) or, with scheduled_sampling, its own prediction. Metrics:
// token_accuracy and perplexity, p_gen with a pointer and coverage_loss, all with teacher forcing; use Translator and
// text_scores to evaluate free decoding. Pairs are assigned to the splits by split_seed. The decoder has the encoder's
// options, but reads in one direction. A copied word has its number in the target vocabulary, or an extended number if
// it is not in that vocabulary.
struct TranslateOptions : TextRowsOptions, DecoderOptions {
  std::string tokens = "characters";  // sources and targets have separate vocabularies
};
template <>
inline constexpr auto k_options<TranslateOptions> = std::array{option<&TranslateOptions::tokens>(keys::tokens)};
UNROLL_API std::shared_ptr<const PairTask> make_translate(const TranslateOptions& options, DataSource data,
                                                          const std::string& name, const Metadata& fitted = {});
UNROLL_API DataCheck check_data(const TranslateOptions& options, DataSource data, const std::string& name);

// Translates source lines with a `translate` model. The unknown token is never written. With a pointer, source words
// outside the target vocabulary can be copied.
class UNROLL_API Translator {
 public:
  Translator(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend);

  struct Result {
    std::string text;                      // the best text
    double log_probability = 0;            // of the text and its end, natural logarithm, without a length penalty
    std::vector<ScoredText> targets;       // at most `beam`, the best first; none for a source without tokens
    std::int64_t tokens = 0, unknown = 0;  // of the source
  };
  void check(std::string_view source) const;  // throws Error(usage) above 1024 tokens
  std::vector<Result> predict(std::span<const std::string> sources, const DecodeOptions& options = {});
  std::string translate(std::string_view source, const DecodeOptions& options = {});  // the translation of one source

  using Attention = WrittenAttention;
  Attention attention(std::string_view source, std::string_view target);

 private:
  struct State;
  HiddenState<State> state_;
};

}  // namespace unroll
