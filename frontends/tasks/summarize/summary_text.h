// SPDX-License-Identifier: Apache-2.0
// Texts and summaries as tokens with an extended vocabulary: words that the vocabulary lacks have numbers of their own,
// so that a summary can name them by copying (See, Liu, Manning 2017, section 2.2).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/data/text/pairs.h"
#include "frontends/tasks/common/task_parts.h"
#include "frontends/tasks/decode/line_coder.h"
#include "unroll/tasks.h"

namespace unroll {

// A source. Numbers from V on stand for its unknown words, in the order of their first place.
struct SourceTokens {
  std::vector<std::int32_t> ids;     // what the encoder reads: an unknown word is the unknown token
  std::vector<std::int32_t> copies;  // what is written where this place is copied
  std::vector<std::string> unknown;  // word V + k
  std::int64_t n_unknown = 0;        // places with an unknown word
  std::int64_t cut = 0;              // tokens beyond the limit, which are not read
};

class SummaryCoder {
 public:
  struct Limits {
    std::int64_t source, target;  // tokens; a longer text is cut
  };
  SummaryCoder(LineCoder coder, bool lowercase, Limits limits)
      : coder_(std::move(coder)), lowercase_(lowercase), limits_(limits) {}
  static SummaryCoder of(const Metadata& metadata);

  const Tokenizer& tokenizer() const { return coder_.tokenizer(); }
  std::int32_t end() const { return static_cast<std::int32_t>(tokenizer().size()); }
  std::int64_t tokens() const { return tokenizer().size() + 1; }  // V, with the end
  const Limits& limits() const { return limits_; }

  // Throw Error(input_file) in the name of `name` where the tokenizer cannot read the text.
  SourceTokens source(std::string_view text, const std::string& name) const;
  // With the numbers of the source's unknown words, and without the end. Another unknown word is the unknown token.
  struct Target {
    std::vector<std::int32_t> ids;
    std::int64_t cut = 0;
  };
  Target target(std::string_view text, const SourceTokens& source, const std::string& name) const;
  // What the decoder reads in place of a token.
  std::int32_t known(std::int32_t id) const { return id < tokens() ? id : tokenizer().unknown(); }
  std::string text_of(std::span<const std::int32_t> ids, const SourceTokens& source) const;
  std::string word(std::int32_t id, const SourceTokens& source) const;

 private:
  LineCoder coder_;
  bool lowercase_;
  Limits limits_;
};

// As the tokenizer is trained on and reads texts: A to Z in lower case where that is asked for.
std::string in_case(std::string_view text, bool lowercase);

// The reader of a summarize task's files.
PairsReader summary_reader(const SummarizeOptions& options, const std::string& name);
// The rows of an indexed file by split: by the cells of data.split, or as split_rows. Throws Error(input_file) with the
// line on another cell than train, validation or test.
SplitRows summary_rows(const RecordFile& file, const PairsReader& reader, const SummarizeOptions& options);
// The tokenizer of sources and targets, trained on the training set.
Tokenizer summary_tokenizer(const RecordFile& file, const PairsReader& reader, const std::vector<std::int64_t>& train,
                            const SummarizeOptions& options);

}  // namespace unroll
