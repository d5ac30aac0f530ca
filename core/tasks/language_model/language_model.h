// SPDX-License-Identifier: Apache-2.0
// The network of a language model, for training on windows and for generating step by step.
#pragma once

#include <span>

#include "core/data/tokens/tokenizer.h"
#include "unroll/model/model.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

struct LanguageNetwork {
  RecurrentModelOptions model;
  std::int64_t embedding;
  std::int64_t vocabulary;  // V
  bool tied = false;        // the output's weight is that of the embedding

  std::int32_t document_start = -1;  // before this token the state is zero; -1: none

  // From the task's metadata.
  static LanguageNetwork of(const Metadata& metadata);
  // ids i32 [T, B], states those of the recurrent part -> y: logits [T, B, V], and the next states. Parameters
  // "embedding.*", "recurrent.*", "output.*".
  CellLayerResult build(Scope& scope, Value ids, std::span<const Value> states) const;
};

// Of a model's metadata, -1 where there is none.
std::int32_t document_start_of(const Metadata& metadata);

// Of a model's metadata. Models of before there were kinds of tokens are of characters.
Tokenizer language_tokenizer(const Metadata& metadata, const std::string& name);

}  // namespace unroll
