// SPDX-License-Identifier: Apache-2.0
// The hierarchical document network: words to sentences, sentences to a document. Shapes: W words of a sentence, S
// sentences of a document, B batch, V vocabulary size, K labels.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/data/corpus/documents.h"
#include "core/data/tokens/lexicon.h"
#include "unroll/model/model.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

struct DocumentNetwork {
  RecurrentModelOptions model;  // for words, and again for sentences
  std::string pooling;
  std::int64_t embedding;
  std::int64_t words;   // V, including the unknown word
  std::int64_t labels;  // K

  static DocumentNetwork of(const Metadata& metadata, const Lexicon& words, const Lexicon& labels);
  struct Outputs {
    Value logits;                            // [B,K]
    Value word_weights, sentence_weights;    // of attention pooling: [W,S*B], [S,B]
  };
  // ids i32 [W,S*B], words of sentence s of row b at column s * B + b; n_words i32 [S*B], 0 for padding; n_sentences
  // i32 [B]. Parameters "embedding.*", "words.*", "word_pooling.*", "sentences.*", "sentence_pooling.*", "output.*".
  Outputs build(Scope& scope, Value ids, Value n_words, Value n_sentences) const;
};

// Sentences of word ids.
using Sentences = std::vector<std::vector<std::int32_t>>;
Sentences sentences_of(const Document& document, const Lexicon& words);
// Creates the network's inputs "ids", "words" and "sentences", padded to S sentences of W words and B rows.
TensorMap document_inputs(std::span<const Sentences* const> documents, std::int64_t S, std::int64_t W, std::int64_t B);
std::int64_t most_words(const Sentences& sentences);

}  // namespace unroll
