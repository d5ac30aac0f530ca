// SPDX-License-Identifier: Apache-2.0
// The network of a language model, for training on windows and for step-by-step generation.
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
  bool tied = false;        // the output weight is the embedding weight

  std::int32_t document_start = -1;  // this token resets the state to zero; -1: none

  // Reads the task's metadata.
  static LanguageNetwork of(const Metadata& metadata);
  // ids i32 [T, B], states of the recurrent layers -> y: logits [T, B, V], and the next states. Parameters
  // "embedding.*", "recurrent.*", "output.*".
  CellLayerResult build(Scope& scope, Value ids, std::span<const Value> states) const;
};

// Returns the document start token of a model, or -1.
std::int32_t document_start_of(const Metadata& metadata);

// Returns the tokenizer of a model. Metadata of old models without a tokenizer kind mean characters.
Tokenizer language_tokenizer(const Metadata& metadata, const std::string& name);

}  // namespace unroll
