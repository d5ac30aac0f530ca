// SPDX-License-Identifier: Apache-2.0
// Lines, lexicons and batches of like length.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/data/batch/buckets.h"
#include "core/data/file/lines.h"
#include "core/data/tokens/lexicon.h"
#include "unroll/support/error.h"

using namespace unroll;

TEST_CASE("a lexicon numbers the most frequent entries first and survives its own text") {
  const Lexicon::Counts counts{{"b", 3}, {"a", 3}, {"rare", 1}, {"the", 9}, {"new\nline", 2}, {"back\\slash", 2}};
  const Lexicon lexicon = Lexicon::of(counts, 2, 100);
  CHECK(lexicon.size() == 5);
  CHECK(lexicon.text(0) == "the");
  CHECK(lexicon.text(1) == "a");
  CHECK(lexicon.text(2) == "b");
  CHECK(lexicon.id("rare") == lexicon.size());
  CHECK(Lexicon::of(counts, 1, 2).size() == 2);
  const Lexicon again = Lexicon::from_lines(lexicon.lines(), "t");
  REQUIRE(again.size() == lexicon.size());
  for (std::int32_t id = 0; id < lexicon.size(); ++id) CHECK(again.text(id) == lexicon.text(id));
  CHECK_THROWS_WITH_AS(Lexicon::from_lines("a\nb\na\n", "t"), doctest::Contains("entry 3 twice"), Error);
}

TEST_CASE("lines end in either way, and the one that is not UTF-8 is named") {
  std::vector<std::string> lines;
  for_each_line(
      "\xEF\xBB\xBF"
      "a\r\n\nb",
      "t", [&](std::string_view line, std::size_t number) {
        CHECK(number == lines.size() + 1);
        lines.emplace_back(line);
      });
  CHECK(lines == std::vector<std::string>{"a", "", "b"});
  CHECK_THROWS_WITH_AS(for_each_line("a\nb\xC3\n", "t", [](auto, auto) {}),
                       doctest::Contains("line 2: is not UTF-8 at byte 2"), Error);
  CHECK(words_of(" a\t b c ") == std::vector<std::string>{"a", "b", "c"});
  CHECK(words_of("  ").empty());
}

TEST_CASE("padded lengths are few and little longer than what they hold") {
  std::set<std::int64_t> shapes;
  for (std::int64_t n = 1; n <= 4096; ++n) {
    const std::int64_t padded = padded_length(n);
    CHECK(padded >= n);
    CHECK(padded < n + std::max<std::int64_t>(4, n / 8 + 1));
    CHECK(padded_length(padded) == padded);
    shapes.insert(padded);
  }
  CHECK(shapes.size() == 16 + 6 * 8);  // up to 64 in fours, then eight in each octave
}

TEST_CASE("buckets hold every sequence once an epoch, of like lengths, as a pure function of seed, epoch and index") {
  std::vector<Buckets::Lengths> lengths;
  for (std::int64_t i = 0; i < 203; ++i) lengths.push_back({1 + i * 37 % 60, 1 + i * 11 % 17});
  const Buckets buckets(lengths, {16}), same(lengths, {16});
  CHECK(buckets.n_batches() == 13);
  const auto epoch = [&](const Buckets& b, std::uint64_t seed, std::int64_t e) {
    std::vector<std::vector<std::int64_t>> batches;
    for (std::int64_t i = 0; i < b.n_batches(); ++i) batches.push_back(b.shuffled(seed, e, i).rows);
    return batches;
  };
  const auto first = epoch(buckets, 5, 0), second = epoch(buckets, 5, 1);
  CHECK(first != second);
  CHECK(epoch(buckets, 6, 0) != first);
  CHECK(epoch(same, 5, 0) == first);
  CHECK(same.shuffled(5, 1, 7).rows == second[7]);  // whatever was asked for before
  std::int64_t padding = 0, total = 0;
  for (const auto& batches : {first, second}) {
    std::set<std::int64_t> seen;
    for (const auto& rows : batches) seen.insert(rows.begin(), rows.end());
    CHECK(seen.size() == lengths.size());
  }
  for (std::int64_t i = 0; i < buckets.n_batches(); ++i) {
    const Buckets::Rows rows = buckets.shuffled(5, 0, i);
    for (const std::int64_t row : rows.rows) {
      const Buckets::Lengths& l = lengths[static_cast<std::size_t>(row)];
      CHECK(l.first <= rows.padded.first);
      CHECK(l.second <= rows.padded.second);
      padding += rows.padded.first - l.first;
      total += rows.padded.first;
    }
  }
  CHECK(static_cast<double>(padding) < 0.15 * static_cast<double>(total));  // in a random order it is a half
  for (std::int64_t i = 1; i < buckets.n_batches(); ++i)
    CHECK(buckets.sorted(i - 1).padded.first <= buckets.sorted(i).padded.first);
  CHECK_THROWS_AS(buckets.sorted(13), Error);
}
