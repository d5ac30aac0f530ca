// SPDX-License-Identifier: Apache-2.0
// The network of sequence labeling, for training on batches and for labeling a sentence.
#pragma once

#include "core/data/tokens/lexicon.h"
#include "unroll/model/model.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

struct LabelNetwork {
  RecurrentModelOptions model;
  std::int64_t embedding;
  std::int64_t tokens;  // vocabulary size, including the unknown token
  std::int64_t labels;  // K
  bool crf = false;     // score the labels of a sentence jointly

  // Reads the task's metadata.
  static LabelNetwork of(const Metadata& metadata, const Lexicon& tokens, const Lexicon& labels);
  // ids i32 [T,B], lengths i32 [B] -> logits [T,B,K]. Parameters "embedding.*", "recurrent.*", "output.*".
  Value build(Scope& scope, Value ids, Value lengths) const;
  // Returns the CRF with parameters "crf.*".
  Crf field(Scope& scope) const { return crf_parameters(scope.child("crf"), labels); }
  // Returns the most likely labels, i32 [T,B].
  Value decode(Scope& scope, Value logits, Value lengths) const;
};

}  // namespace unroll
