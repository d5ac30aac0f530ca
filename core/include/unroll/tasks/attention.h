// SPDX-License-Identifier: Apache-2.0
// Attention weights of trained models.
#pragma once

#include <string>
#include <vector>

namespace unroll {

// Attention weights of each written token over the source tokens; rows sum to 1.
struct WrittenAttention {
  std::vector<std::string> source, target;  // tokens as text; "" for the end of the target
  std::vector<float> weights;               // [target, source]
  std::vector<float> p_gen;                 // [target]: generation probability of a token; empty without a pointer
};

// Attention weights of a text: of each sentence, and of each word in its sentence.
struct TextAttention {
  struct Sentence {
    float weight = 0;                // among the sentences of the text, which sum to 1
    std::vector<std::string> words;  // as the model reads them, in lower case
    std::vector<float> weights;      // of each word in the sentence; they sum to 1
  };
  std::vector<Sentence> sentences;
};

}  // namespace unroll
