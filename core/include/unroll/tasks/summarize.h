// SPDX-License-Identifier: Apache-2.0
// Summarization of texts.
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

// Network: source [S,B], source_lengths [B], target [T,B] -> probabilities [T,B,V] of writing each token, attention
// [T,B,S] and p_gen [T,B]. With `pointer`, source step s is copied with probability (1 - p_gen) attention[s]; without
// it there is no p_gen.

// Pointer-generator summarizer (See, Liu, Manning 2017). An encoder reads a text. Each decoder step attends to it, and
// writes a word of the vocabulary or copies a word of the text, even an out-of-vocabulary word. The file has a
// `text<TAB>summary` pair per line, or is a CSV. Sources and targets share a vocabulary. Metrics, with teacher forcing:
// perplexity per token; p_gen, the mean probability of writing from the vocabulary; coverage_loss. Use Summarizer and
// text_scores to evaluate free decoding. Rows are assigned to the splits by a column or by split_seed.
struct SummarizeOptions : TextRowsOptions, DecoderOptions {
  SummarizeOptions() { input_feeding = pointer = true; }
  std::string tokens = "words";
  bool lowercase = false;
  std::string source, target;
  std::string split;
  std::int64_t source_tokens = 400;
  std::int64_t target_tokens = 100;
  std::int64_t chunk = 0;  // the decoder attends to all chunks
  bool shared_embedding = true;
};
template <>
inline constexpr auto k_options<SummarizeOptions> = std::array{
    option<&SummarizeOptions::tokens>(keys::tokens),
    option<&SummarizeOptions::lowercase>(
        {"data.lowercase", any_value, "read A to Z in lower case, in sources and targets"}),
    option<&SummarizeOptions::source>(
        {"data.source", any_value,
         "source column: its name or number, first or last; empty: the one whose header is source, text, article or "
         "similar, else the first"}),
    option<&SummarizeOptions::target>(
        {"data.target", any_value,
         "target column: its name or number, first or last; empty: the one whose header is target, summary, title or "
         "similar, else the second"}),
    option<&SummarizeOptions::split>(
        {"data.split", any_value,
         "column whose cells are train, validation or test: its name or number; empty: data.validation and data.test "
         "say which rows these are"}),
    option<&SummarizeOptions::source_tokens>(
        {"data.source_tokens", between(1, 1e5), "tokens of a source that are read; the rest is cut"}),
    option<&SummarizeOptions::target_tokens>(
        {"data.target_tokens", between(1, 1e5),
         "tokens of a target in training; the rest is cut. No longer text is decoded, unless --max-length allows it"}),
    option<&SummarizeOptions::chunk>(
        {"model.chunk", between(0, 1e5),
         "source tokens that the encoder reads from a zero state, chunk by chunk at once; 0: the whole source"}),
    option<&SummarizeOptions::shared_embedding>(
        {"model.shared_embedding", any_value, "encoder and decoder share one embedding"}),
};
UNROLL_API std::shared_ptr<const PairTask> make_summarize(const SummarizeOptions& options, DataSource data,
                                                          const std::string& name, const Metadata& fitted = {});
UNROLL_API DataCheck check_data(const SummarizeOptions& options, DataSource data, const std::string& name);

// Generates summaries with a `summarize` model. Out-of-vocabulary words of the source can be copied; the unknown token
// is never written.
class UNROLL_API Summarizer {
 public:
  Summarizer(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend);

  using Summary = ScoredText;
  struct Result {
    std::vector<Summary> summaries;        // at most `beam`, the best first; none for a text without tokens
    std::int64_t tokens = 0, unknown = 0;  // of the part of the source that is read
    std::int64_t cut = 0;                  // tokens beyond the source_tokens of training, which are not read
  };
  void check(std::string_view source) const;  // throws Error(usage) on a text that is not UTF-8
  std::vector<Result> predict(std::span<const std::string> sources, const DecodeOptions& options = {});
  std::string summarize(std::string_view source, const DecodeOptions& options = {});  // the best summary of one source

  using Attention = WrittenAttention;
  Attention attention(std::string_view source, std::string_view summary);

 private:
  struct State;
  HiddenState<State> state_;
};

}  // namespace unroll
