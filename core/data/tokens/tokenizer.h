// SPDX-License-Identifier: Apache-2.0
// Four kinds of tokenizers. The vocabulary learned from the training text is part of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unroll {

struct TokenizerOptions {
  std::int64_t vocabulary = 10000;  // words, bpe: maximum vocabulary size
  std::int64_t min_count = 2;       // words: minimum count of a word; bpe: minimum count of a merged pair
};

// The tokens of a text concatenate to the text, except at unknown().
//   bytes       256 ids, for any encoding
//   characters  those of the training text; others are unknown. Text must be UTF-8
//   words       pieces, see pieces_of; rare ones are unknown
//   bpe         pieces as bytes; the most frequent pair repeatedly becomes one token (Sennrich et al. 2016; on bytes as
//               Radford et al. 2019). Ties go to the lower ids
class Tokenizer {
 public:
  static constexpr std::size_t k_max_tokens = std::size_t{1} << 20;

  // Trains on `texts`. Throws Error(usage) on an unknown kind or options out of range, and Error(input_file), which
  // names `name`, on text that cannot be read.
  static Tokenizer train(std::string_view kind, std::span<const std::string_view> texts,
                         const TokenizerOptions& options, const std::string& name);
  // The same for a stream of texts: `texts` calls its argument with each text.
  using Texts = std::function<void(const std::function<void(std::string_view text)>& take)>;
  static Tokenizer train(std::string_view kind, const Texts& texts, const TokenizerOptions& options,
                         const std::string& name);
  // Reads stored() from model metadata. Throws Error(input_file) if it does not fit this kind of tokenizer.
  static Tokenizer from_stored(std::string_view kind, std::string_view stored, const std::string& name);

  std::string_view kind() const;
  std::string stored() const;
  std::int64_t size() const;     // V: ids 0 .. V-1, including the unknown token
  std::int32_t unknown() const;  // -1 if there is none
  // Throws Error(input_file), which names `name`, if a character tokenizer reads text that is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text, const std::string& name) const;
  // Returns the text of each token of encode(); empty for tokenizers without an unknown token. Text must be UTF-8.
  std::vector<std::string> parts(std::string_view text) const;
  std::string text(std::int32_t id) const;         // U+FFFD for unknown()
  std::int64_t characters(std::int32_t id) const;  // UTF-8 characters that begin in the token
  bool pieces() const;                             // words and bpe: a blank belongs to the next piece

  class Coder;

 private:
  explicit Tokenizer(std::shared_ptr<const Coder> coder) : coder_(std::move(coder)) {}
  std::shared_ptr<const Coder> coder_;
};

// Splits a text into words, numbers, other single characters and single white space. A blank belongs to the next word,
// number or character: "to be, 1 2" -> "to", " be", ",", " 1", " 2". A piece has at most 64 bytes plus one character.
std::vector<std::string_view> pieces_of(std::string_view text);

}  // namespace unroll
