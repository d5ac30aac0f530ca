// SPDX-License-Identifier: Apache-2.0
// Answers that are texts: the best ones of a search for each line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "frontends/cli/answers/answers.h"
#include "unroll/predict.h"

namespace unroll::cli {

// text   a line `text` per text, with scores `text<TAB>score<TAB>log_probability`; with an n-best list an empty line
//        ends the texts of a line
// table  source, (rank,) text, log_probability (, score)
// jsonl  source, text, log_probability (, score) of the best; with an n-best list a list of all
class WrittenTexts {
 public:
  // `one` and `many` name a text: "summary", "summaries". Throws Error(usage) on more texts than the beam keeps.
  WrittenTexts(std::string one, std::string many, const PredictArguments& options);
  std::vector<std::string> columns() const;
  void put(const InputLine& line, std::span<const ScoredText> texts, RowWriter& writer) const;

 private:
  RowWriter::Json json_of(const ScoredText& text) const;
  std::string one_, many_;
  std::size_t nbest_;
  bool scores_;
};

}  // namespace unroll::cli
