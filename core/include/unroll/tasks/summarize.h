// SPDX-License-Identifier: Apache-2.0
// Summaries of texts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/tasks/attention.h"
#include "unroll/tasks/shared.h"

namespace unroll {

// Network: source [S,B], source_lengths [B], target [T,B] -> probabilities [T,B,V] of writing each token, attention
// [T,B,S] and p_gen [T,B]. Without `pointer` there is no p_gen; else source step s is copied with probability
// (1 - p_gen) attention[s].

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
UNROLL_API DataCheck check_data(const SummarizeOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name);

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

}  // namespace unroll
