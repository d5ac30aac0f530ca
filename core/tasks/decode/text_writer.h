// SPDX-License-Identifier: Apache-2.0
// Decoding with a trained encoder and decoder: many searches in lockstep, with a lane per hypothesis. Shapes as in
// attention_network.h, with K lanes for each source.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/model/constants.h"
#include "core/tasks/common/prediction_batches.h"
#include "core/tasks/decode/attention_network.h"
#include "core/tasks/decode/pair_text.h"
#include "core/tasks/decode/text_lanes.h"

namespace unroll {

class TextWriter {
 public:
  // `who` names the class in messages; the model must be of `task`. Throws Error if the parameters do not fit.
  TextWriter(const Metadata& metadata, std::string_view task, std::string who, const TensorMap& parameters,
             BackendHandle backend);
  const PairCoder& coder() const { return coder_; }
  const std::string& who() const { return who_; }

  // Returns the best texts of each source; none for a source without tokens.
  std::vector<std::vector<ScoredText>> write(std::span<const SourceTokens> sources, const DecodeOptions& options,
                                             const WritingLimits& limits);
  WrittenAttention attention(std::string_view source, std::string_view target);

 private:
  std::shared_ptr<Program> encoder(std::int64_t steps, std::int64_t rows);
  std::shared_ptr<Program> step(const LaneSize& size);

  std::string who_;
  BackendHandle backend_;
  PairCoder coder_;
  AttentionNetwork network_;
  Constants constants_;
  ProgramCache<std::pair<std::int64_t, std::int64_t>> encoders_;  // by S and B
  ProgramCache<LaneSize> steppers_;
};

}  // namespace unroll
