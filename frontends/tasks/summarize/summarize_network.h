// SPDX-License-Identifier: Apache-2.0
// Pointer-generator network (See, Liu, Manning 2017, arXiv 1704.04368): an encoder, and a decoder whose step attends
// to the source, reads the last context (input feeding, Luong et al. 2015) and may copy source words.
// Shapes: S source steps, T target steps, B sources, N decoder lanes (B * lanes per source), E embedding, M width of
// the memory, P width of the decoder's output, A width of the attention, V tokens with the end of a text.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "unroll/model.h"
#include "unroll/tasks.h"

namespace unroll {

struct SummarizeNetwork {
  RecurrentModelOptions model;  // of the encoder; the decoder has one layer of the same cell
  std::int64_t embedding = 1;   // E
  std::int64_t tokens = 1;      // V; V - 1 is the end of a text, and what the decoder reads first
  std::int64_t chunk = 0;       // source steps that the encoder reads from a zero state; 0: the whole source
  bool pointer = true;
  bool coverage = false;
  bool shared_embedding = true;  // encoder and decoder have one embedding
  bool tied = false;             // the output weight is that of the decoder's embedding

  // From the task's metadata.
  static SummarizeNetwork of(const Metadata& metadata);
  // Throws Error(usage) on options out of range.
  void check() const;

  struct Memory {
    Value values;   // h [B,S,M], zero behind the end of a source
    Value keys;     // W_h h [B,S,A], eq. 1
    Value lengths;  // i32 [B]
  };
  struct Encoded {
    Memory memory;
    std::vector<Value> states;  // of the decoder: its cell, the context, and the coverage if there is one; [1,B,size]
  };
  // ids i32 [S,B]: unknown words have the unknown token. Parameters "embedding.weight" (or "source.weight"),
  // "encoder.*", "bridge.<k>.*", "attention.memory.weight".
  Encoded encode(Scope& scope, Value ids, Value lengths) const;

  // What a step of the decoder writes. All values belong to the graph of the step.
  struct Written {
    Value logits;    // [N,V], of P_vocab (eq. 4)
    Value switched;  // [N,1], p_gen is its sigmoid (eq. 8); empty without a pointer
    Value weights;   // a [N,S], eq. 2
    Value covered;   // c [N,S], eq. 10: the sum of the weights before this step; empty without coverage
  };
  using Outputs = std::function<std::vector<Value>(Step& step, const Written& written)>;
  // ids i32 [T,N]: the token before each. `outputs` has the values that the result stacks to [T,...]. Parameters
  // "embedding.weight" (or "target.weight"), "decoder.*_l0", "attention.*", "combine.*", "output.*", "switch.*".
  CellLayerResult decode(Scope& scope, Value ids, std::span<const Value> states, const Memory& memory,
                         const Outputs& outputs) const;

  // log P(label) of eq. 9 for each lane [N]: labels i32 [N], copies i32 [N,S]. Labels from V on are unknown words by
  // their number in the source. A lane whose label is neither in the vocabulary nor in the source gives about -1e30.
  Value log_probability(const Written& written, Value labels, Value copies) const;

  // What is most probable for each lane [N] i32: a word of the vocabulary or, with a pointer, the word of `words` [N,S]
  // at the place with the largest weight. Probabilities of several places of one word are not added up.
  Value likeliest(const Written& written, Value words) const;

 private:
  Value embed(const Scope& scope, const char* side, Value ids) const;
  Value encoder_output(const Scope& scope, Value x, Value lengths, std::vector<Value>& ends) const;
  RecurrentModelOptions decoder() const;
  std::int64_t memory_width() const;
};

// A copied token's place where there is no source word.
inline constexpr std::int32_t k_no_source = -2;

}  // namespace unroll
