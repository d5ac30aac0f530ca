// SPDX-License-Identifier: Apache-2.0
// BLEU, chrF and ROUGE against the numbers of sacrebleu and rouge-score in text_scores.tsv.gz (make_text_scores.py).
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "core/data/file/gzip.h"
#include "unroll/data/text_scores.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

using namespace unroll;

namespace {

struct Row {
  std::string text, reference;
  std::vector<double> numbers;  // as make_text_scores.py lists them
};
constexpr std::size_t k_of_pair = 2 + 2 * 9, k_numbers = k_of_pair + 2;

std::vector<Row> golden_rows() {
  const std::string path = UNROLL_SOURCE_ROOT "/tests/golden/text_scores.tsv.gz";
  const auto file = unpacked(disk().open(path), path, 0);
  std::string text(file->size(), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(text)));
  std::vector<Row> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    Row& row = rows.emplace_back();
    std::getline(cells, row.text, '\t');
    std::getline(cells, row.reference, '\t');
    for (double value = 0; cells >> value;) row.numbers.push_back(value);
    REQUIRE(row.numbers.size() == k_numbers);
  }
  return rows;
}

void append(std::vector<double>& to, const TextScores& s) {
  for (const RougeScore* r : {&s.rouge1, &s.rouge2, &s.rougeL}) to.insert(to.end(), {r->precision, r->recall, r->f});
}

// The file has nine digits of each number.
constexpr double k_digits = 1e-8;

TextScores of(const std::vector<std::string>& texts, const std::vector<std::string>& references) {
  return text_scores(texts, references);
}

}  // namespace

TEST_CASE("BLEU, chrF and ROUGE are those of sacrebleu and rouge-score") {
  const std::vector<Row> rows = golden_rows();
  REQUIRE(rows.size() == 1000);
  std::vector<std::string> texts, references;
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CAPTURE(row.reference);
    const std::vector text{row.text}, reference{row.reference};
    const TextScores plain = of(text, reference);
    std::vector<double> numbers{plain.bleu, plain.chrf};
    append(numbers, plain);
    append(numbers, text_scores(text, reference, {.stem = true}));
    for (std::size_t i = 0; i < k_of_pair; ++i) {
      CAPTURE(i);
      CHECK(numbers[i] == doctest::Approx(row.numbers[i]).epsilon(k_digits));
    }
    texts.push_back(row.text);
    references.push_back(row.reference);
    if (texts.size() > 30 && texts.size() % 100 != 0) continue;
    const TextScores so_far = of(texts, references);
    CHECK(so_far.bleu == doctest::Approx(row.numbers[k_of_pair]).epsilon(k_digits));
    CHECK(so_far.chrf == doctest::Approx(row.numbers[k_of_pair + 1]).epsilon(k_digits));
  }
}

TEST_CASE("texts without references are refused, no texts score nothing") {
  CHECK_THROWS_AS(of({"a"}, {}), Error);
  CHECK(of({}, {}).bleu == 0);
  CHECK(of({"a", "b"}, {"a", "c"}).exact_match == 0.5);
}

TEST_CASE("a byte that is not UTF-8 counts as one character") {
  CHECK(of({"a\xFF"}, {"a\xFF"}).chrf == 100);
  CHECK(of({"a\xFF"}, {"ab"}).chrf < 100);
}

TEST_CASE("intervals contain the score, narrow with more pairs and repeat with a seed") {
  const auto interval = [](std::size_t n, std::uint64_t seed) {
    std::vector<std::string> texts, references;
    for (std::size_t i = 0; i < n; ++i) {
      texts.emplace_back(i % 3 == 0 ? "a b c d" : "a x c");
      references.emplace_back("a b c d");
    }
    const TextScoreIntervals i = text_score_intervals(texts, references, {.seed = seed});
    const TextScores s = of(texts, references);
    CHECK(i.low.bleu <= s.bleu);
    CHECK(s.bleu <= i.high.bleu);
    CHECK(i.low.rougeL.f < s.rougeL.f);
    CHECK(s.rougeL.f < i.high.rougeL.f);
    return std::pair(i.low.exact_match, i.high.exact_match);
  };
  const auto few = interval(30, 0), many = interval(300, 0);
  CHECK(many.second - many.first < (few.second - few.first) / 2);
  CHECK(interval(30, 0) == few);
  // A share of 1/3 of 300 has a standard error of 0.0272; 95 % of a normal distribution lies within 1.96 of them.
  CHECK(many.second - many.first == doctest::Approx(2 * 1.96 * 0.0272).epsilon(0.15));
  CHECK_THROWS_AS(text_score_intervals({}, {}, {.resamples = 0}), Error);
}
