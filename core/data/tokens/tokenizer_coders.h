// SPDX-License-Identifier: Apache-2.0
// Coders of the tokenizer kinds.
#pragma once

#include <map>
#include <memory>

#include "core/data/tokens/lexicon.h"
#include "core/data/tokens/tokenizer.h"

namespace unroll {

class Tokenizer::Coder {
 public:
  virtual ~Coder() = default;
  virtual std::string_view kind() const = 0;
  virtual std::string stored() const = 0;
  virtual std::int64_t size() const = 0;
  virtual bool has_unknown() const { return false; }  // the last id
  virtual bool pieces() const { return false; }
  virtual std::vector<std::int32_t> encode(std::string_view text, const std::string& name) const = 0;
  virtual std::vector<std::string> parts(std::string_view) const { return {}; }
  virtual std::string text(std::int32_t id) const = 0;
};

// Counts the pieces.
Lexicon::Counts count_pieces(const Tokenizer::Texts& texts);

std::shared_ptr<const Tokenizer::Coder> train_byte_pairs(const Tokenizer::Texts& texts,
                                                         const TokenizerOptions& options);
std::shared_ptr<const Tokenizer::Coder> byte_pairs_from(std::string_view stored, const std::string& name);

}  // namespace unroll
