// SPDX-License-Identifier: Apache-2.0
// Encoder and decoder with attention, of the tasks translate and summarize. With input feeding each step of the decoder
// reads the context of the step before (Luong et al. 2015, section 3.3) in a loop; without it the decoder's layers read
// the target alone, and all steps attend at once. With a pointer a step may copy a source word (See, Liu, Manning 2017,
// arXiv 1704.04368, whose equations are named below).
// Shapes: S source steps, T target steps, B sources, N decoder lanes (B * lanes per source), E embedding, M width of
// the memory, P width of the decoder's output, A width of the attention, V target tokens with the end of a text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "unroll/model/model.h"
#include "unroll/tasks/inference.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

struct AttentionNetwork {
  RecurrentModelOptions model;          // of the encoder; the decoder is the same, reading forwards
  std::string attention = "additive";   // dot: Luong et al. 2015, "general"; additive: Bahdanau et al. 2015
  std::int64_t embedding = 1;           // E
  std::int64_t sources = 1;             // numbers of source tokens
  std::int64_t targets = 1;             // V; V - 1 is the end of a text, and what the decoder reads first
  std::int64_t chunk = 0;               // source steps that the encoder reads from a zero state; 0: the whole source
  bool input_feeding = false;           // the decoder then has one layer
  bool pointer = false;
  bool coverage = false;                // with input feeding and additive attention
  bool shared_embedding = false;        // encoder and decoder have one embedding
  bool tied = false;                    // the output weight is that of the decoder's embedding

  // From the task's metadata, and into it; without the numbers of tokens, which the vocabularies have.
  static AttentionNetwork of(const Metadata& metadata);
  void put(Metadata& metadata) const;
  // Throws Error(usage) on options out of range, or that do not go together.
  void check() const;

  struct Memory {
    Value values;   // h [B,S,M], zero behind the end of a source
    Value keys;     // W_h h [B,S,A], eq. 1; only for additive attention with input feeding
    Value lengths;  // i32 [B]
  };
  struct Encoded {
    Memory memory;
    std::vector<Value> states;  // of the decoder, [L,B,size]: its cell's; with input feeding the context, the coverage
  };
  // ids i32 [S,B]: unknown words have the unknown token. Parameters "source.weight" (or "embedding.weight"),
  // "encoder.*", "bridge.<k>.*", "attention.memory.weight".
  Encoded encode(Scope& scope, Value ids, Value lengths) const;

  // What the decoder writes, [T,N,...] with input feeding and else [N,T,...].
  struct Written {
    Value logits;    // [...,V], of P_vocab (eq. 4)
    Value switched;  // [...,1], p_gen is its sigmoid (eq. 8); empty without a pointer
    Value weights;   // a [...,S], eq. 2
    Value covered;   // c [...,S], eq. 10: the sum of the weights before a step; empty without coverage
    std::vector<Value> states = {};  // after the last step
  };
  // ids i32 [T,N]: the token before each. Parameters "target.weight" (or "embedding.weight"), "decoder.*",
  // "attention.*", "combine.*", "output.*", "switch.*". `lengths` i32 [N]: the tokens of each row that penalties look
  // at; empty: all.
  Written decode(Scope& scope, Value ids, std::span<const Value> states, const Memory& memory,
                 Value lengths = {}) const;
  // [T,N,...] in the order of what is written, and the other way round.
  Value reordered(Value x) const;

  // log P(label) of eq. 9: labels i32 in the order of what is written, copies i32 [N,S]. Labels from V on are words
  // that the vocabulary lacks, by their number in the source. A label neither in the vocabulary nor in the source gives
  // about -1e30 with a pointer, and 0 without one.
  Value log_probability(const Written& written, Value labels, Value copies) const;

  // What is most probable, i32 in the order of what is written: a word of the vocabulary or, with a pointer, the word
  // of `words` [N,S] at the place with the largest weight. Probabilities of several places of a word are not added up.
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

// A copied token's place where there is no source word, or none that can be written.
inline constexpr std::int32_t k_no_source = -2;

// The network from named inputs to outputs. With `logs` and without a pointer it gives the logarithms of the
// distribution. Else it gives the distribution of the vocabulary and of copying; a caller adds up what is copied by
// source word.
Inference written_inference(const Metadata& metadata, bool logs);

}  // namespace unroll
