// SPDX-License-Identifier: Apache-2.0
// The data of a summarize task: texts and summaries, which share a vocabulary.
#pragma once

#include <string>
#include <vector>

#include "core/tasks/common/task_parts.h"
#include "core/tasks/decode/pair_text.h"

namespace unroll {

// Returns the reader of a summarize task's files.
PairsReader summary_reader(const SummarizeOptions& options, const std::string& name);
// Assigns the rows of an indexed file to splits: by the cells of data.split, or like split_rows. Throws
// Error(input_file), with the line, on a cell other than train, validation or test.
SplitRows summary_rows(const RecordFile& file, const PairsReader& reader, const SummarizeOptions& options);
// Returns the coder of sources and targets: trained on the training set, or from the metadata of a trained model.
PairCoder summary_coder(const RecordFile& file, const PairsReader& reader, const std::vector<std::int64_t>& train,
                        const SummarizeOptions& options, bool copies, const Metadata& fitted = {});

}  // namespace unroll
