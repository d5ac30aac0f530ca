// SPDX-License-Identifier: Apache-2.0
// Checks shared by the kinds of text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/corpus/pairs.h"
#include "core/data/tokens/lexicon.h"
#include "core/data/tokens/tokenizer.h"
#include "core/tasks/check/data_rows.h"
#include "core/tasks/check/row_checks.h"

namespace unroll {

// Returns the data file with the separate files of the splits.
RecordFile records_at(std::shared_ptr<const Vfs::Reader> file, const std::string& name, const TextRowsOptions& options);
void count_ids(DataChecker::Known& known, const Tokenizer& tokenizer, std::string_view text, const std::string& name);
// The rows of a task with labels and a vocabulary of words.
struct LabeledWords {
  std::vector<CheckedRow> rows;  // with lengths in `unit`
  LabelCounts labels;
  PerSplit<Lexicon::Counts> words;

  void report(DataChecker& c, const DataRows& data, const TextRowsOptions& options, const std::string& unit) const;
};
// True if rows of this file may continue over several lines.
bool joins_lines(const RecordFile& file, const PairsReader& reader);

}  // namespace unroll
