// SPDX-License-Identifier: Apache-2.0
// Checks that kinds of text have in common.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/data/corpus/pairs.h"
#include "core/data/tokens/tokenizer.h"
#include "core/tasks/check/data_rows.h"
#include "core/tasks/check/row_checks.h"

namespace unroll {

// The data file, and those that the splits have for themselves.
RecordFile records_at(std::shared_ptr<const Vfs::Reader> file, const std::string& name, const TextRowsOptions& options);
void count_ids(DataChecker::Known& known, const Tokenizer& tokenizer, std::string_view text, const std::string& name);
// Whether rows of this file may go on over several lines.
bool joins_lines(const RecordFile& file, const PairsReader& reader);

}  // namespace unroll
