// SPDX-License-Identifier: Apache-2.0
// Encoder and decoder with attention, for training on pairs and for decoding step by step.
// Shapes: S source steps, T target steps, B batch, M width of the memory, V target tokens with the end.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "frontends/tasks/decode/line_coder.h"
#include "unroll/model.h"
#include "unroll/tasks.h"

namespace unroll {

struct TranslateNetwork {
  RecurrentModelOptions model;  // of the encoder; the decoder is the same, reading forwards
  std::string attention;        // dot: Luong et al. 2015, "general"; additive: Bahdanau et al. 2015
  std::int64_t embedding;
  std::int64_t sources;  // numbers of source tokens
  std::int64_t targets;  // V; V - 1 is the end of a text, and what the decoder reads first
  bool tied = false;        // the decoder's output weight is that of its embedding

  // From the task's metadata.
  static TranslateNetwork of(const Metadata& metadata);
  struct Encoded {
    Value memory;               // [B,S,M], zero behind the end of a source
    std::vector<Value> states;  // the decoder's first, [L,B,size] each
  };
  // ids i32 [S,B], lengths i32 [B]. Parameters "source.*", "encoder.*", "bridge.<k>.*".
  Encoded encode(Scope& scope, Value ids, Value lengths) const;

  struct Decoded {
    Value logits;               // [B,T,V]
    Value weights;              // [B,T,S]: how much each target step attends to each source step
    std::vector<Value> states;  // after step T
  };
  // ids i32 [T,B]: the token before each. Parameters "target.*", "decoder.*", "attention.*", "combine.*", "output.*".
  Decoded decode(Scope& scope, Value ids, std::span<const Value> states, Value memory, Value lengths) const;

  // Throws Error(usage) on an unknown attention or a size below 1.
  void check() const;
  RecurrentModelOptions decoder() const;
};

// How many tokens a source or a target may have.
inline constexpr std::size_t k_max_line_tokens = 1024;

}  // namespace unroll
