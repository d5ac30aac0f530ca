// SPDX-License-Identifier: Apache-2.0
// Encoder and decoder with attention, for the tasks translate and summarize. With input feeding each decoder step reads
// the attention context of the previous step (Luong et al. 2015, section 3.3) in a loop. Without it the decoder's
// layers read only the target, and all steps attend at once. With a pointer a step may copy a source word (See, Liu,
// Manning 2017, arXiv 1704.04368; the equation numbers below refer to it).
// Shapes: S source steps, T target steps, B sources, N decoder lanes (B * lanes per source), E embedding, M width of
// the memory, P width of the decoder's output, A width of the attention, V target tokens including the end token.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "unroll/model/model.h"
#include "unroll/tasks/inference.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

struct AttentionNetwork {
  RecurrentModelOptions model;          // of the encoder; the decoder is the same, but unidirectional
  std::string attention = "additive";   // dot: Luong et al. 2015, "general"; additive: Bahdanau et al. 2015
  std::int64_t embedding = 1;           // E
  std::int64_t sources = 1;             // source vocabulary size
  std::int64_t targets = 1;             // V; V - 1 is the end token, and the first input of the decoder
  std::int64_t chunk = 0;               // source steps per chunk, each from a zero state; 0: the whole source
  bool input_feeding = false;           // requires a decoder with one layer
  bool pointer = false;
  bool coverage = false;                // requires input feeding and additive attention
  bool shared_embedding = false;        // encoder and decoder share one embedding
  bool tied = false;                    // the output weight is the decoder's embedding weight

  // Reads or writes the task's metadata, without the vocabulary sizes.
  static AttentionNetwork of(const Metadata& metadata);
  void put(Metadata& metadata) const;
  // Throws Error(usage) on options that are out of range or incompatible.
  void check() const;

  struct Memory {
    Value values;   // h [B,S,M], zero after the end of a source
    Value keys;     // W_h h [B,S,A], eq. 1; only for additive attention with input feeding
    Value lengths;  // i32 [B]
  };
  struct Encoded {
    Memory memory;
    std::vector<Value> states;  // of the decoder cell, [L,B,size]; with input feeding then context, coverage
  };
  // ids i32 [S,B], with the unknown token for unknown words. Parameters "source.weight" (or "embedding.weight"),
  // "encoder.*", "bridge.<k>.*", "attention.memory.weight".
  Encoded encode(Scope& scope, Value ids, Value lengths) const;

  // Outputs of the decoder, [T,N,...] with input feeding and otherwise [N,T,...].
  struct Written {
    Value logits;    // [...,V], of P_vocab (eq. 4)
    Value switched;  // [...,1], p_gen is its sigmoid (eq. 8); empty without a pointer
    Value weights;   // a [...,S], eq. 2
    Value covered;   // c [...,S], eq. 10: the sum of the weights of earlier steps; empty without coverage
    std::vector<Value> states = {};  // after the last step
  };
  // ids i32 [T,N]: the previous tokens. Parameters "target.weight" (or "embedding.weight"), "decoder.*", "attention.*",
  // "combine.*", "output.*", "switch.*". `lengths` i32 [N]: the tokens of each row for the penalties; empty: all.
  Written decode(Scope& scope, Value ids, std::span<const Value> states, const Memory& memory,
                 Value lengths = {}) const;
  // Converts [T,N,...] to the axis order of Written, and back.
  Value reordered(Value x) const;

  // Returns log P(label) of eq. 9; labels i32 in the axis order of Written, copies i32 [N,S]. Labels from V on are
  // out-of-vocabulary words, numbered within their source. A label in neither the vocabulary nor the source gives about
  // -1e30 with a pointer, and 0 without one.
  Value log_probability(const Written& written, Value labels, Value copies) const;

  // Returns the most likely tokens, i32 in the axis order of Written: a word of the vocabulary or, with a pointer, the
  // word of `words` [N,S] at the largest weight. Probabilities of repeated words are not added up.
  Value likeliest(const Written& written, Value words) const;

 private:
  struct Attended {
    Value output, context, weights, covered;  // [...,P], [...,M], as Written
    std::vector<Value> states;
  };
  Attended attend_at_once(Scope& scope, Value x, std::span<const Value> states, const Memory& memory,
                          Value lengths) const;
  Attended attend_in_steps(Scope& scope, Value x, std::span<const Value> states, const Memory& memory) const;
  Value embed(const Scope& scope, const std::string& side, Value ids, std::int64_t tokens) const;
  std::string embedding_of(const std::string& side) const { return shared_embedding ? "embedding" : side; }
  Value dense(const Scope& scope, Value x, std::int64_t outputs) const;
  Value encoder_output(const Scope& scope, Value x, Value lengths, std::vector<Value>& ends) const;
  Value of_source(Value x) const;
  RecurrentModelOptions decoder() const;
  bool has_keys() const { return input_feeding && attention == "additive"; }
};

// Copied token of a position without a source word, or with one that cannot be written.
inline constexpr std::int32_t k_no_source = -2;

// Returns the network from named inputs to outputs. With `logs` and no pointer the output is the log probabilities.
// Otherwise it is the distributions of the vocabulary and of copying; the caller sums copy probabilities by source
// word.
Inference written_inference(const Metadata& metadata, bool logs);

}  // namespace unroll
