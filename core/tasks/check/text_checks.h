// SPDX-License-Identifier: Apache-2.0
// Checks shared by the kinds of text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/data/corpus/pairs.h"
#include "core/data/tokens/tokenizer.h"
#include "core/tasks/check/data_rows.h"
#include "core/tasks/check/row_checks.h"

namespace unroll {

// Returns the data file with the separate files of the splits.
RecordFile records_at(std::shared_ptr<const Vfs::Reader> file, const std::string& name, const TextRowsOptions& options);
void count_ids(DataChecker::Known& known, const Tokenizer& tokenizer, std::string_view text, const std::string& name);
// True if rows of this file may continue over several lines.
bool joins_lines(const RecordFile& file, const PairsReader& reader);

}  // namespace unroll
