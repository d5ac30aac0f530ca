// SPDX-License-Identifier: Apache-2.0
// Lines as tokens, for tasks that read and write lines.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/tokens/tokenizer.h"
#include "unroll/tasks/predict.h"

namespace unroll {

// Encodes lines. Pieces keep the blank before them, so a blank is added in front of a line.
class LineCoder {
 public:
  explicit LineCoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::vector<std::int32_t> encode(std::string_view line, const std::string& name) const;
  // Returns the text of each token of a line, including unknown ones; empty if the tokenizer has no unknown token.
  std::vector<std::string> parts(std::string_view line) const;
  // Joins the texts of tokens to a line.
  std::string joined(std::span<const std::string> parts) const;

 private:
  Tokenizer tokenizer_;
};

// Returns the coder of metadata key "<which>.vocabulary", or "vocabulary" if `which` is empty.
LineCoder get_coder(const Metadata& metadata, const std::string& which);

}  // namespace unroll
