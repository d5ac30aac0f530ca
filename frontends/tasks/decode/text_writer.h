// SPDX-License-Identifier: Apache-2.0
// Decoding with a trained encoder and decoder: many searches in lock step, a lane for each of their hypotheses.
// Shapes as in attention_network.h, with K lanes for each source.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontends/model/constants.h"
#include "frontends/tasks/common/prediction_batches.h"
#include "frontends/tasks/decode/attention_network.h"
#include "frontends/tasks/decode/lanes.h"
#include "frontends/tasks/decode/pair_text.h"

namespace unroll {

class TextWriter {
 public:
  // `who` names the class in messages, for a model of this task. Throws Error on parameters that do not fit.
  TextWriter(const Metadata& metadata, std::string_view task, std::string who, const TensorMap& parameters,
             Backend& backend);
  const PairCoder& coder() const { return coder_; }
  const std::string& who() const { return who_; }

  // The best texts of each source, none for a source without a token.
  struct Limits {
    std::int64_t (*longest)(const SourceTokens& source, const PairCoder& coder);  // where the options say nothing
    bool writes_unknown;  // the unknown token, where nothing can be copied
  };
  std::vector<std::vector<ScoredText>> write(std::span<const SourceTokens> sources, const DecodeOptions& options,
                                             const Limits& limits);
  WrittenAttention attention(std::string_view source, std::string_view target);

 private:
  using Sources = std::span<const SourceTokens* const>;
  struct Size {
    std::int64_t steps, rows, lanes;  // S, B, K
    auto operator<=>(const Size&) const = default;
  };
  struct Encoding {
    TensorMap memory;  // values, keys, lengths
    TensorMap states;
  };
  std::shared_ptr<Program> encoder(std::int64_t steps, std::int64_t rows);
  std::shared_ptr<Program> step(const Size& size);
  Encoding encode(Sources sources, std::int64_t steps, std::int64_t rows);
  std::vector<std::vector<Hypothesis>> search(Sources sources, std::int64_t steps, std::int64_t rows,
                                              const DecodeOptions& options, const Limits& limits);

  std::string who_;
  Backend& backend_;
  PairCoder coder_;
  AttentionNetwork network_;
  Constants constants_;
  ProgramCache<std::pair<std::int64_t, std::int64_t>> encoders_;  // by S and B
  ProgramCache<Size> steppers_;
};

}  // namespace unroll
