// SPDX-License-Identifier: Apache-2.0
// Text as numbers, in one of four ways. What a tokenizer learnt from a training text is part of the model.
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
  std::int64_t vocabulary = 10000;  // words, bpe: tokens at most
  std::int64_t min_count = 2;       // words: seen at least so often; bpe: a pair is merged when seen so often
};

// Tokens of a text put together give the text, except where one is unknown().
//   bytes       256 numbers, whatever the bytes mean
//   characters  those of the training text; another one is unknown. Text must be UTF-8
//   words       pieces, see pieces_of; a rare one is unknown
//   bpe         pieces as bytes, of which the most frequent pair becomes one token, again and again (Sennrich et al.
//               2016; on bytes as Radford et al. 2019). Of pairs seen equally often the lower numbers come first
class Tokenizer {
 public:
  static constexpr std::size_t k_max_tokens = std::size_t{1} << 20;

  // Learns from `texts`. Throws Error(usage) on an unknown kind or options out of range, Error(input_file) in the name
  // of `name` on text that cannot be read.
  static Tokenizer train(std::string_view kind, std::span<const std::string_view> texts,
                         const TokenizerOptions& options, const std::string& name);
  // The same of texts that are shown one after the other: `texts` calls what it is given with each.
  using Texts = std::function<void(const std::function<void(std::string_view text)>& take)>;
  static Tokenizer train(std::string_view kind, const Texts& texts, const TokenizerOptions& options,
                         const std::string& name);
  // From stored(). Throws Error(input_file) when it is not what a tokenizer of this kind stores.
  static Tokenizer from_stored(std::string_view kind, std::string_view stored, const std::string& name);

  std::string_view kind() const;
  std::string stored() const;
  std::int64_t size() const;     // V: numbers 0 .. V-1, the unknown one among them
  std::int32_t unknown() const;  // -1 where there is none
  // Throws Error(input_file) in the name of `name` when characters are to be cut from what is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text, const std::string& name) const;
  // The text of each token of encode(), unknown ones too. Empty where nothing is ever unknown. Text must be UTF-8.
  std::vector<std::string> parts(std::string_view text) const;
  std::string text(std::int32_t id) const;         // U+FFFD for unknown()
  std::int64_t characters(std::int32_t id) const;  // UTF-8 characters that begin in the token
  bool pieces() const;                             // words and bpe: blanks belong to the piece after them

  class Coder;

 private:
  explicit Tokenizer(std::shared_ptr<const Coder> coder) : coder_(std::move(coder)) {}
  std::shared_ptr<const Coder> coder_;
};

// A text cut into words, numbers, single other characters and single white space; one blank stays with the word, number
// or character after it: "to be, 1 2" -> "to", " be", ",", " 1", " 2". A piece has at most 64 bytes and a character.
std::vector<std::string_view> pieces_of(std::string_view text);

}  // namespace unroll
