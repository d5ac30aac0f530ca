// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/data/tokens/tokenizer.h"
#include "unroll/support/error.h"

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

namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;
using Ids = std::vector<std::int32_t>;

void join(Ids& ids, Pair pair, std::int32_t joined) {
  Ids result;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool here = i + 1 < ids.size() && Pair{ids[i], ids[i + 1]} == pair;
    result.push_back(here ? joined : ids[i]);
    i += here;
  }
  ids = std::move(result);
}

Ids bytes_in(std::string_view piece) {
  Ids ids;
  for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// Merges by counting all pairs anew each time.
std::vector<Pair> merges_by_counting(const std::string& text, std::size_t n, std::int64_t least) {
  std::map<std::string, std::int64_t> times;
  for (const std::string_view piece : pieces_of(text)) ++times[std::string(piece)];
  std::vector<std::pair<Ids, std::int64_t>> pieces;
  for (const auto& [piece, count] : times) pieces.emplace_back(bytes_in(piece), count);
  std::vector<Pair> merges;
  while (merges.size() < n) {
    std::map<Pair, std::int64_t> counts;
    for (const auto& [ids, count] : pieces)
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) counts[{ids[i], ids[i + 1]}] += count;
    const auto best = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < least) break;
    merges.push_back(best->first);
    for (auto& [ids, count] : pieces) join(ids, best->first, static_cast<std::int32_t>(255 + merges.size()));
  }
  return merges;
}

}  // namespace

TEST_CASE("byte pairs are those of counting all pairs anew after each merge, and cut a text merge by merge") {
  std::string words, runs = "aaaa aaaaaaa aaaaaaaaaaaaa abababa bababababb ", endless;
  std::uint32_t state = 7;
  const auto draw = [&](std::uint32_t below) { return (state = state * 1664525u + 1013904223u) / 65536u % below; };
  for (int i = 0; i < 3000; ++i) {
    words += std::string(1, static_cast<char>('a' + draw(1 + draw(12))));
    if (draw(5) == 0) words += draw(7) == 0 ? ", " : " ";
    runs += draw(20) == 0 ? " " : draw(4) == 0 ? "b" : "a";
    endless += static_cast<char>('a' + draw(6));
  }
  for (const std::string& text : {words, runs, endless, std::string("a"), std::string()}) {
    const std::vector<Pair> merges = merges_by_counting(text, 150, 2);
    std::string stored;
    for (const Pair& m : merges) stored += std::to_string(m.first) + " " + std::to_string(m.second) + "\n";
    const std::string_view texts[] = {text};
    const Tokenizer tokenizer = Tokenizer::train("bpe", texts, {256 + 150, 2}, "t");
    CHECK(tokenizer.stored() == stored);
    Ids wanted;
    for (const std::string_view piece : pieces_of(text)) {
      Ids ids = bytes_in(piece);
      for (std::size_t k = 0; k < merges.size(); ++k) join(ids, merges[k], static_cast<std::int32_t>(256 + k));
      wanted.insert(wanted.end(), ids.begin(), ids.end());
    }
    CHECK(tokenizer.encode(text, "t") == wanted);
  }
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
  CHECK_THROWS_WITH_AS(trained("characters", "a\xFF"), doctest::Contains("byte 2"), Error);
  CHECK_THROWS_AS(trained("bpe", "a", {.vocabulary = 0, .min_count = 2}), Error);
}
