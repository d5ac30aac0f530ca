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
  std::int64_t tokens;  // numbers of tokens, the unknown one among them
  std::int64_t labels;  // K
  bool crf = false;     // labels of a sentence are scored together

  // From the task's metadata.
  static LabelNetwork of(const Metadata& metadata, const Lexicon& tokens, const Lexicon& labels);
  // ids i32 [T,B], lengths i32 [B] -> logits [T,B,K]. Parameters "embedding.*", "recurrent.*", "output.*".
  Value build(Scope& scope, Value ids, Value lengths) const;
  // "crf.*" beside them.
  Crf field(Scope& scope) const { return crf_parameters(scope.child("crf"), labels); }
  // The likeliest labels i32 [T,B].
  Value decode(Scope& scope, Value logits, Value lengths) const;
};

}  // namespace unroll
