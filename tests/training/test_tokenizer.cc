// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "frontends/data/tokens/tokenizer.h"
#include "unroll/error.h"

using namespace unroll;

namespace {

using Texts = std::vector<std::string_view>;
Tokenizer trained(const char* kind, std::string_view text, const TokenizerOptions& options = {}) {
  return Tokenizer::train(kind, Texts{text}, options, "t");
}
std::vector<std::string> texts_of(const Tokenizer& t, std::string_view text) {
  std::vector<std::string> parts;
  for (const std::int32_t id : t.encode(text, "t")) parts.push_back(t.text(id));
  return parts;
}

}  // namespace

TEST_CASE("pieces keep the blank before them, and put together give the text") {
  const std::string text = "to be,  it's 12x \n\xC3\xA9t\xC3\xA9' !";
  CHECK(pieces_of(text) ==
        Texts{"to", " be", ",", " ", " it's", " 12", "x", " ", "\n", "\xC3\xA9t\xC3\xA9", "'", " !"});
  std::string back;
  for (const std::string_view piece : pieces_of(text)) back += piece;
  CHECK(back == text);
  for (const std::string_view piece : pieces_of(std::string(1000, 'a'))) CHECK(piece.size() <= 64);
}

TEST_CASE("what a tokenizer cuts gives the text again, also after it was stored") {
  const std::string text = "the cat sat on the mat, the caf\xC3\xA9.\nthe \\n end\n";
  for (const char* kind : {"bytes", "characters", "words", "bpe"}) {
    CAPTURE(kind);
    const Tokenizer t = trained(kind, text, {.vocabulary = 280, .min_count = 1});
    const Tokenizer again = Tokenizer::from_stored(kind, t.stored(), "t");
    CHECK(again.size() == t.size());
    CHECK(again.encode(text, "t") == t.encode(text, "t"));
    std::string back;
    std::int64_t characters = 0;
    for (const std::int32_t id : t.encode(text, "t")) {
      back += again.text(id);
      characters += again.characters(id);
    }
    CHECK(back == text);
    CHECK(characters == static_cast<std::int64_t>(text.size()) - 1);  // one has two bytes
  }
}

TEST_CASE("byte pairs are merged by how often they occur, lower numbers first among equals") {
  // The corpus of Sennrich et al. 2016, section 3.2. e+s and s+t are there 9 times, l+o and o+w 7, the blank with n or
  // with low 6: of equal ones the pair of lower numbers comes first.
  const std::string text =
      "low low low low low lower lower newest newest newest newest newest newest widest widest widest";
  const Tokenizer t = trained("bpe", text, {.vocabulary = 262, .min_count = 2});
  REQUIRE(t.size() == 262);
  const std::vector<std::string> merged{"es", "est", "lo", "low", " n", " low"};
  for (std::int32_t k = 0; k < 6; ++k) CHECK(t.text(256 + k) == merged[static_cast<std::size_t>(k)]);
  CHECK(texts_of(t, "low lowest") == std::vector<std::string>{"low", " low", "est"});
  CHECK(t.stored() == trained("bpe", text, {.vocabulary = 262, .min_count = 2}).stored());
  CHECK(trained("bpe", text, {.vocabulary = 10000, .min_count = 100}).size() == 256);
  CHECK(trained("bpe", "aaaa", {.vocabulary = 300, .min_count = 2}).size() == 257);  // aa twice, then aa aa once
}

TEST_CASE("words that are rare, and characters that training had not, are one unknown token") {
  const Tokenizer words = trained("words", "a b a b c", {.vocabulary = 100, .min_count = 2});
  CHECK(words.size() == 2);  // " b", and the unknown one: "a" and " a" are not the same piece
  CHECK(words.encode(" c", "t") == std::vector<std::int32_t>{words.unknown()});
  const Tokenizer characters = trained("characters", "ab");
  CHECK(characters.encode("az", "t") == std::vector<std::int32_t>{0, characters.unknown()});
  CHECK(trained("bytes", "").unknown() == -1);
  CHECK(trained("bpe", "").unknown() == -1);
}

TEST_CASE("what no tokenizer stores is refused with its line") {
  CHECK_THROWS_WITH_AS(Tokenizer::from_stored("bpe", "1 2\n1 300\n", "m"), doctest::Contains("line 2"), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_stored("bpe", "1 2\n1 2\n", "m"), doctest::Contains("line 2"), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_stored("bpe", "1 -2\n", "m"), doctest::Contains("line 1"), Error);
  std::string doubling;  // tokens of 2, 4, 8 ... bytes: at most 256
  for (int k = 0; k < 30; ++k)
    doubling += std::to_string(k ? 255 + k : 1) + " " + std::to_string(k ? 255 + k : 1) + "\n";
  CHECK_THROWS_WITH_AS(Tokenizer::from_stored("bpe", doubling, "m"), doctest::Contains("line 9"), Error);
  CHECK_THROWS_WITH_AS(Tokenizer::from_stored("syllables", "", "m"),
                       doctest::Contains("bytes, characters, words or bpe"), Error);
  CHECK_THROWS_WITH_AS(trained("characters", "a\xFF"), doctest::Contains("byte 1"), Error);
  CHECK_THROWS_AS(trained("bpe", "a", {.vocabulary = 0, .min_count = 2}), Error);
}
