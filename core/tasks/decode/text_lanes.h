// SPDX-License-Identifier: Apache-2.0
// Beam searches with a trained encoder and decoder, for sources of one padded length. Shapes as in attention_network.h,
// with K lanes for each of B rows.
#pragma once

#include <compare>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tasks/decode/decoder_step.h"
#include "core/tasks/decode/lanes.h"
#include "core/tasks/decode/pair_text.h"
#include "unroll/tasks/predict.h"

namespace unroll {

struct LaneSize {
  std::int64_t steps, rows, lanes;  // S, B, K
  auto operator<=>(const LaneSize&) const = default;
};

// Default limits of a search.
struct WritingLimits {
  std::int64_t (*longest)(const SourceTokens& source, const PairCoder& coder);
};

class TextLanes final : public LaneModel {
 public:
  // encoder: source i32 [S,B], lengths i32 [B] -> values [B,S,M], keys [B,S,A] if any, state.<k> [L,B,size].
  // step: values, keys, lengths, ids i32 [1,N], attended [1,N,S], state.<k> [L,N,size] -> logits [N,V]; shift [N,1],
  // with log P = logits + shift; with a pointer copied [N,S], the probability of each source position; attended,
  // state.<k>.
  struct Programs {
    std::shared_ptr<Program> encoder, step;
  };
  using Sources = std::span<const SourceTokens* const>;
  TextLanes(const PairCoder& coder, Programs programs, const LaneSize& size, Sources sources,
            const DecodeOptions& options, const WritingLimits& limits);

  BeamSearch start(std::size_t source, std::size_t row) override;
  void run(std::span<const std::int32_t> tokens, std::span<const std::size_t> parents) override;
  void advance(std::size_t source, std::size_t row, BeamSearch& search) override;

 private:
  void encode(std::size_t first);
  // Appends the lane's probabilities of source words to others_, and removes their logits from `logits` [V].
  void copy_words(const SourceTokens& source, std::span<float> logits, double shift, std::span<const float> copied);

  const PairCoder& coder_;
  std::shared_ptr<Program> encoder_;
  DecoderStep step_;
  LaneSize size_;
  Sources sources_;
  const DecodeOptions& options_;
  const WritingLimits& limits_;
  bool pointer_;
  TensorMap encoded_;                      // for up to B sources
  std::vector<double> mass_;               // [V + extended words], zero between calls
  std::vector<NextTokens::Other> others_;  // of all lanes of a row
};

}  // namespace unroll
