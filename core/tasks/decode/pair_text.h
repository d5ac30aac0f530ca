// SPDX-License-Identifier: Apache-2.0
// Pairs of texts as tokens with an extended vocabulary: source words that the target vocabulary lacks have numbers of
// their own, so that a target can name them by copying (See, Liu, Manning 2017, section 2.2).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/corpus/pairs.h"
#include "core/tasks/decode/line_coder.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

// A source. Numbers from V on stand for its words that the target vocabulary lacks, in the order of their first place.
struct SourceTokens {
  std::vector<std::int32_t> ids;      // what the encoder reads: an unknown word is the unknown token
  std::vector<std::int32_t> copies;   // what is written where this place is copied; k_no_source: nothing
  std::vector<std::string> extended;  // word V + k
  std::int64_t n_unknown = 0;         // places with a word that the source vocabulary lacks
  std::int64_t cut = 0;               // tokens beyond the limit, which are not read
};

class PairCoder {
 public:
  struct Limits {
    std::int64_t source, target;  // tokens; a longer text is cut
  };
  // One vocabulary for both sides, or one each. Without `copies` no source word has a number of its own.
  PairCoder(LineCoder both, bool copies, bool lowercase, Limits limits);
  PairCoder(LineCoder source, LineCoder target, bool copies, Limits limits);
  // From the task's metadata, and into it.
  static PairCoder of(const Metadata& metadata);
  void put(Metadata& metadata) const;

  const Tokenizer& source_tokenizer() const { return source_.tokenizer(); }
  const Tokenizer& target_tokenizer() const { return target_.tokenizer(); }
  std::int32_t end() const { return static_cast<std::int32_t>(target_tokenizer().size()); }
  std::int64_t tokens() const { return target_tokenizer().size() + 1; }  // V, with the end
  const Limits& limits() const { return limits_; }

  // Throw Error(input_file) in the name of `name` where the tokenizer cannot read the text.
  SourceTokens source(std::string_view text, const std::string& name) const;
  // With the numbers of the source's words, and without the end. Another unknown word is the unknown token.
  struct Target {
    std::vector<std::int32_t> ids;
    std::int64_t cut = 0;
  };
  Target target(std::string_view text, const SourceTokens& source, const std::string& name) const;
  // The text of each token of a source, unknown ones too.
  std::vector<std::string> source_words(std::string_view text, const SourceTokens& source) const;
  // What the decoder reads in place of a token.
  std::int32_t known(std::int32_t id) const { return id < tokens() ? id : target_tokenizer().unknown(); }
  std::string text_of(std::span<const std::int32_t> ids, const SourceTokens& source) const;
  std::string word(std::int32_t id, const SourceTokens& source) const;

 private:
  std::int32_t number_of(const std::string& word) const;

  LineCoder source_, target_;
  bool separate_, copies_, lowercase_ = false;
  Limits limits_;
  std::vector<std::int32_t> numbers_;  // with separate vocabularies: of each source token in the target vocabulary
};

// The tokenizer of these sides of the training set, which reads A to Z in lower case where that is asked for.
using PairSides = std::span<std::string TextPair::* const>;
Tokenizer pair_tokenizer(const RecordFile& file, const PairsReader& reader, const std::vector<std::int64_t>& train,
                         PairSides sides, const TextRowsOptions& options, const std::string& tokens,
                         bool lowercase = false);

// How many tokens a source or a target of a translate task may have.
inline constexpr std::int64_t k_max_line_tokens = 1024;

}  // namespace unroll
