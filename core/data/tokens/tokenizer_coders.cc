// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/tokenizer.h"

#include <algorithm>
#include <functional>

#include "core/data/text/text.h"
#include "core/data/tokens/tokenizer_coders.h"
#include "core/support/text/in_quotes.h"
#include "core/support/text/utf8.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_max_piece = 64;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80); }
bool is_coded_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Returns the end of the token that begins at `at`: letters (with single apostrophes inside), digits, or one character.
std::size_t word_end(std::string_view text, std::size_t at) {
  const std::size_t limit = std::min(text.size(), at + k_max_piece);
  std::size_t end = at + 1;
  if (is_letter(text[at])) {
    while (end < limit && (is_letter(text[end]) || (text[end] == '\'' && end + 1 < limit && is_letter(text[end + 1]))))
      ++end;
  } else if (is_coded_digit(text[at])) {
    while (end < limit && is_coded_digit(text[end])) ++end;
  }
  while (end < text.size() && end < limit + 3 && continues_character(text[end])) ++end;  // never splits a character
  return end;
}

class Bytes256 : public Tokenizer::Coder {
 public:
  std::string_view kind() const override { return "bytes"; }
  std::string stored() const override { return {}; }
  std::int64_t size() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text, const std::string&) const override {
    std::vector<std::int32_t> ids(text.size());
    std::transform(text.begin(), text.end(), ids.begin(), [](char c) { return static_cast<unsigned char>(c); });
    return ids;
  }
  std::string text(std::int32_t id) const override { return std::string(1, static_cast<char>(id)); }
};

class Characters : public Tokenizer::Coder {
 public:
  explicit Characters(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  std::string_view kind() const override { return "characters"; }
  std::string stored() const override { return vocabulary_.characters(); }
  std::int64_t size() const override { return vocabulary_.size(); }
  bool has_unknown() const override { return true; }
  std::vector<std::int32_t> encode(std::string_view text, const std::string& name) const override {
    return vocabulary_.encode(decode_utf8(text, name));
  }
  std::vector<std::string> parts(std::string_view text) const override {
    std::vector<std::string> parts;
    for (const char c : text)
      if (continues_character(c) && !parts.empty()) parts.back() += c;
      else parts.emplace_back(1, c);
    return parts;
  }
  std::string text(std::int32_t id) const override { return vocabulary_.text(id); }

 private:
  Vocabulary vocabulary_;
};

class Words : public Tokenizer::Coder {
 public:
  explicit Words(Lexicon lexicon) : lexicon_(std::move(lexicon)) {}
  std::string_view kind() const override { return "words"; }
  std::string stored() const override { return lexicon_.lines(); }
  std::int64_t size() const override { return lexicon_.size() + 1; }
  bool has_unknown() const override { return true; }
  bool pieces() const override { return true; }
  std::vector<std::int32_t> encode(std::string_view text, const std::string&) const override {
    std::vector<std::int32_t> ids;
    for (const std::string_view piece : pieces_of(text)) ids.push_back(lexicon_.id(piece));
    return ids;
  }
  std::vector<std::string> parts(std::string_view text) const override {
    const std::vector<std::string_view> pieces = pieces_of(text);
    return {pieces.begin(), pieces.end()};
  }
  std::string text(std::int32_t id) const override { return id < lexicon_.size() ? lexicon_.text(id) : "\xEF\xBF\xBD"; }

 private:
  Lexicon lexicon_;
};

using CoderPointer = std::shared_ptr<const Tokenizer::Coder>;

using Texts = Tokenizer::Texts;

CoderPointer train_characters(const Texts& texts, const std::string& name) {
  std::vector<char32_t> all;  // distinct
  texts([&](std::string_view text) {
    const std::vector<char32_t> characters = decode_utf8(text, name);
    all.insert(all.end(), characters.begin(), characters.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  });
  return std::make_shared<Characters>(Vocabulary::of(all, name));
}

struct Row {
  std::string_view kind;
  CoderPointer (*train)(const Texts&, const TokenizerOptions&, const std::string& name);
  CoderPointer (*from_stored)(std::string_view, const std::string& name);
};
constexpr Row k_kinds[] = {
    {"bytes",
     [](const Texts&, const TokenizerOptions&, const std::string&) -> CoderPointer {
       return std::make_shared<Bytes256>();
     },
     [](std::string_view, const std::string&) -> CoderPointer { return std::make_shared<Bytes256>(); }},
    {"characters",
     [](const Texts& texts, const TokenizerOptions&, const std::string& name) { return train_characters(texts, name); },
     [](std::string_view stored, const std::string& name) -> CoderPointer {
       return std::make_shared<Characters>(Vocabulary::from_characters(stored, name));
     }},
    {"words",
     [](const Texts& texts, const TokenizerOptions& o, const std::string&) -> CoderPointer {
       return std::make_shared<Words>(
           Lexicon::of(count_pieces(texts), o.min_count, o.vocabulary - 1));
     },
     [](std::string_view stored, const std::string& name) -> CoderPointer {
       return std::make_shared<Words>(Lexicon::from_lines(stored, name));
     }},
    {"bpe",
     [](const Texts& texts, const TokenizerOptions& o, const std::string&) { return train_byte_pairs(texts, o); },
     byte_pairs_from},
};

const Row& row_of(std::string_view kind, ErrorKind error, const std::string& name) {
  for (const Row& row : k_kinds)
    if (row.kind == kind) return row;
  throw Error(error, name,
              "tokens must be bytes, characters, words or bpe; got " + in_quotes(kind));
}

}  // namespace

std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const bool blank = text[at] == ' ' && at + 1 < text.size() && !is_space(text[at + 1]);
    const std::size_t end = is_space(text[at]) && !blank ? at + 1 : word_end(text, at + (blank ? 1 : 0));
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

Lexicon::Counts count_pieces(const Texts& texts) {
  Lexicon::Counts counts;
  texts([&](std::string_view text) {
    for (const std::string_view piece : pieces_of(text)) {
      const auto at = counts.find(piece);
      if (at == counts.end())
        counts.emplace(piece, 1);
      else
        ++at->second;
    }
  });
  return counts;
}

Tokenizer Tokenizer::train(std::string_view kind, std::span<const std::string_view> texts,
                           const TokenizerOptions& options, const std::string& name) {
  const Texts each = [&](const auto& take) {
    for (const std::string_view text : texts) take(text);
  };
  return train(kind, each, options, name);
}

Tokenizer Tokenizer::train(std::string_view kind, const Texts& texts, const TokenizerOptions& options,
                           const std::string& name) {
  if (options.vocabulary < 1 || options.vocabulary > static_cast<std::int64_t>(k_max_tokens) || options.min_count < 1)
    throw Error(ErrorKind::usage, "tokenizer",
                "vocabulary must be in [1," + std::to_string(k_max_tokens) + "] and min_count at least 1; got " +
                    std::to_string(options.vocabulary) + " and " + std::to_string(options.min_count));
  return Tokenizer(row_of(kind, ErrorKind::usage, "tokenizer").train(texts, options, name));
}

Tokenizer Tokenizer::from_stored(std::string_view kind, std::string_view stored, const std::string& name) {
  return Tokenizer(row_of(kind, ErrorKind::input_file, name).from_stored(stored, name));
}

std::string_view Tokenizer::kind() const { return coder_->kind(); }
std::string Tokenizer::stored() const { return coder_->stored(); }
std::int64_t Tokenizer::size() const { return coder_->size(); }
bool Tokenizer::pieces() const { return coder_->pieces(); }
std::int32_t Tokenizer::unknown() const { return coder_->has_unknown() ? static_cast<std::int32_t>(size() - 1) : -1; }
std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const std::string& name) const {
  return coder_->encode(text, name);
}
std::vector<std::string> Tokenizer::parts(std::string_view text) const { return coder_->parts(text); }
std::string Tokenizer::text(std::int32_t id) const { return coder_->text(id); }
std::int64_t Tokenizer::characters(std::int32_t id) const {
  const std::string text = coder_->text(id);
  return std::count_if(text.begin(), text.end(), std::not_fn(continues_character));
}

}  // namespace unroll
