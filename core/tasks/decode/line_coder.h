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

// Pieces keep the blank before them, so a line of them gets one in front.
class LineCoder {
 public:
  explicit LineCoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::vector<std::int32_t> encode(std::string_view line, const std::string& name) const;
  // The text of each token of a line, unknown ones too, as far as the tokenizer has unknown tokens; else empty.
  std::vector<std::string> parts(std::string_view line) const;
  // A line from the texts of its tokens.
  std::string joined(std::span<const std::string> parts) const;

 private:
  Tokenizer tokenizer_;
};

// The coder of metadata key "<which>.vocabulary", or "vocabulary" where `which` is empty.
LineCoder get_coder(const Metadata& metadata, const std::string& which);

}  // namespace unroll
