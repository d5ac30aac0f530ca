// SPDX-License-Identifier: Apache-2.0
// Pairs of texts as tokens with an extended vocabulary. Source words outside the target vocabulary have extended ids,
// so that targets can name them by copying (See, Liu, Manning 2017, section 2.2).
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

// A source. Ids from V on are its words outside the target vocabulary, in the order of their first position.
struct SourceTokens {
  std::vector<std::int32_t> ids;      // inputs of the encoder: unknown words are the unknown token
  std::vector<std::int32_t> copies;   // target id written when this position is copied; k_no_source: none
  std::vector<std::string> extended;  // word V + k
  std::int64_t n_unknown = 0;         // positions with a word outside the source vocabulary
  std::int64_t cut = 0;               // tokens beyond the limit, which are not read
};

class PairCoder {
 public:
  struct Limits {
    std::int64_t source, target;  // tokens; longer texts are cut
  };
  // A shared vocabulary for both sides, or separate ones. Without `copies` there are no extended ids.
  PairCoder(LineCoder both, bool copies, bool lowercase, Limits limits);
  PairCoder(LineCoder source, LineCoder target, bool copies, Limits limits);
  // Reads or writes the task's metadata.
  static PairCoder of(const Metadata& metadata);
  void put(Metadata& metadata) const;

  const Tokenizer& source_tokenizer() const { return source_.tokenizer(); }
  const Tokenizer& target_tokenizer() const { return target_.tokenizer(); }
  std::int32_t end() const { return static_cast<std::int32_t>(target_tokenizer().size()); }
  std::int64_t tokens() const { return target_tokenizer().size() + 1; }  // V, including the end token
  const Limits& limits() const { return limits_; }

  // Throw Error(input_file), which names `name`, if the tokenizer cannot read the text.
  SourceTokens source(std::string_view text, const std::string& name) const;
  // Target ids, including extended ids of the source, without the end token. Other unknown words are the unknown token.
  struct Target {
    std::vector<std::int32_t> ids;
    std::int64_t cut = 0;
  };
  Target target(std::string_view text, const SourceTokens& source, const std::string& name) const;
  // Returns the text of each token of a source, including unknown ones.
  std::vector<std::string> source_words(std::string_view text, const SourceTokens& source) const;
  // Returns the decoder input for a token: extended ids become the unknown token.
  std::int32_t known(std::int32_t id) const { return id < tokens() ? id : target_tokenizer().unknown(); }
  std::string text_of(std::span<const std::int32_t> ids, const SourceTokens& source) const;
  std::string word(std::int32_t id, const SourceTokens& source) const;

 private:
  std::int32_t number_of(const std::string& word) const;

  LineCoder source_, target_;
  bool separate_, copies_, lowercase_ = false;
  Limits limits_;
  std::vector<std::int32_t> numbers_;  // with separate vocabularies: target id of each source token
};

// Trains the tokenizer on these sides of the training set; `lowercase` maps A to Z to lower case.
using PairSides = std::span<std::string TextPair::* const>;
Tokenizer pair_tokenizer(const RecordFile& file, const PairsReader& reader, const std::vector<std::int64_t>& train,
                         PairSides sides, const TextRowsOptions& options, const std::string& tokens,
                         bool lowercase = false);

// Maximum tokens of a source or target in a translate task.
inline constexpr std::int64_t k_max_line_tokens = 1024;

}  // namespace unroll
