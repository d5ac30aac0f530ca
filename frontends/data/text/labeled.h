// SPDX-License-Identifier: Apache-2.0
// Labeled sequences: a line `token<TAB>label` for each token, a blank line after each sentence (CoNLL's form).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/data/batch/records.h"

namespace unroll {

struct LabeledLimits {
  std::size_t max_tokens = std::size_t{1} << 40;  // of the file
  std::size_t max_length = 4096;                  // of a sentence
};

struct LabeledSentence {
  std::vector<std::string> tokens, labels;  // of one size, at least 1
  std::size_t line = 0;                     // of its first token, from 1
};

// Throws Error(input_file) with the line on a line without exactly one tab, an empty token or label, what is not UTF-8,
// anything above the limits, and a file without a sentence.
std::vector<LabeledSentence> read_labeled(std::string_view text, const std::string& name,
                                            const LabeledLimits& limits = {});
// The same of a file, of which each sentence becomes a record.
void index_labeled(RecordFile& file, const LabeledLimits& limits = {});
// A record of such a file; its line is not known.
LabeledSentence sentence_in(const RecordFile& file, std::string_view record);

}  // namespace unroll
