// SPDX-License-Identifier: Apache-2.0
// BLEU and ROUGE against the numbers of sacrebleu and rouge-score in text_scores.tsv (make_text_scores.py).
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "unroll/error.h"
#include "unroll/text_scores.h"

using namespace unroll;

namespace {

struct Row {
  std::string text, reference;
  double bleu, rouge1, rouge2, rougeL, bleu_so_far;
};
std::vector<Row> golden_rows() {
  std::vector<Row> rows;
  std::ifstream file(UNROLL_SOURCE_ROOT "/tests/golden/text_scores.tsv");
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    Row& row = rows.emplace_back();
    std::getline(cells, row.text, '\t');
    std::getline(cells, row.reference, '\t');
    cells >> row.bleu >> row.rouge1 >> row.rouge2 >> row.rougeL >> row.bleu_so_far;
    REQUIRE(cells);
  }
  return rows;
}

// Both sides compute a handful of products, one logarithm per order and an exponential in f64.
constexpr double k_rounding = 1e-12;

}  // namespace

TEST_CASE("BLEU and ROUGE are those of sacrebleu and rouge-score") {
  const std::vector<Row> rows = golden_rows();
  REQUIRE(rows.size() >= 15);
  std::vector<std::string> texts, references;
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const TextScores s = text_scores(std::vector{row.text}, std::vector{row.reference});
    CHECK(s.bleu == doctest::Approx(row.bleu).epsilon(k_rounding));
    CHECK(s.rouge1 == doctest::Approx(row.rouge1).epsilon(k_rounding));
    CHECK(s.rouge2 == doctest::Approx(row.rouge2).epsilon(k_rounding));
    CHECK(s.rougeL == doctest::Approx(row.rougeL).epsilon(k_rounding));
    texts.push_back(row.text);
    references.push_back(row.reference);
    CHECK(text_scores(texts, references).bleu == doctest::Approx(row.bleu_so_far).epsilon(k_rounding));
  }
}

TEST_CASE("texts without references are refused, no texts score nothing") {
  CHECK_THROWS_AS(text_scores(std::vector<std::string>{"a"}, {}), Error);
  CHECK(text_scores({}, {}).bleu == 0);
  CHECK(text_scores(std::vector<std::string>{"a", "b"}, std::vector<std::string>{"a", "c"}).exact_match == 0.5);
}
