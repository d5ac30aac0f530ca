// SPDX-License-Identifier: Apache-2.0
// Training on pairs of texts, for the tasks translate and summarize. The decoder reads the target (teacher forcing) or,
// for a share of the tokens, its predictions (scheduled sampling).
#pragma once

#include <memory>
#include <string>

#include "core/tasks/common/task_parts.h"
#include "core/tasks/decode/attention_network.h"
#include "core/tasks/decode/pair_text.h"

namespace unroll {

struct TextPairs {
  std::string task;  // in metadata and messages
  RecordFile file;   // one record per pair
  PairsReader reader;
  SplitRows rows;
  PairCoder coder;
  AttentionNetwork network;
  bool refuses_long = false;    // true: refuse texts beyond the coder's limits; false: cut them
  bool token_accuracy = false;  // true: report it as a metric
};

// Returns a network with these options and the vocabulary sizes of the coder.
AttentionNetwork network_of(const TextRowsOptions& rows, const DecoderOptions& decoder, const PairCoder& coder);

// Throws Error(usage) on options out of range, Error(input_file) on texts that cannot be read.
std::shared_ptr<const PairTask> make_text_pairs(TextPairs pairs, const TextRowsOptions& rows,
                                                const DecoderOptions& decoder);

}  // namespace unroll
