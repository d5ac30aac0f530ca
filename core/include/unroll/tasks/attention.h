// SPDX-License-Identifier: Apache-2.0
// How much models attend to what they read.
#pragma once

#include <string>
#include <vector>

namespace unroll {

// How much each written token attends to each source token; rows sum to 1.
struct WrittenAttention {
  std::vector<std::string> source, target;  // tokens as text; "" for the end of the target
  std::vector<float> weights;               // [target, source]
  std::vector<float> p_gen;                 // [target]: that a token is not copied; empty without a pointer
};

// How much a model attends to each sentence of a text and to each word in it.
struct TextAttention {
  struct Sentence {
    float weight = 0;                // of all sentences; they sum to 1
    std::vector<std::string> words;  // as the model reads them, in lower case
    std::vector<float> weights;      // of each word; they sum to 1
  };
  std::vector<Sentence> sentences;
};

}  // namespace unroll
