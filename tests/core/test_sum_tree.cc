// SPDX-License-Identifier: Apache-2.0
// The tree in which leaves are summed: the same sums, whoever holds which leaves.
#include <doctest/doctest.h>

#include <string>

#include "core/support/sum_tree.h"

using namespace unroll;

namespace {

// The sum as text, "((0+1)+2)".
std::string sum_of(const std::vector<TreeBlock>& roots, std::vector<std::string> texts) {
  for (const SumStep& step : sum_steps(roots)) {
    std::string& left = texts[static_cast<std::size_t>(step.left)];
    left = "(" + left + "+" + texts[static_cast<std::size_t>(step.right)] + ")";
  }
  return texts.at(0);
}

// The texts of a rank's roots.
std::vector<std::string> roots_as_text(Leaves leaves) {
  SumStack stack(leaves);
  std::vector<std::string> texts;
  for (std::int64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) {
    texts.push_back(std::to_string(leaf));
    for (int sums = stack.push(); sums > 0; --sums) {
      const std::string right = texts.back();
      texts.pop_back();
      texts.back() = "(" + texts.back() + "+" + right + ")";
    }
  }
  return texts;
}

std::string sum_by_ranks(std::int64_t leaves, int ranks) {
  std::vector<TreeBlock> roots;
  std::vector<std::string> texts;
  for (int r = 0; r < ranks; ++r) {
    const Leaves own = leaves_of(leaves, r, ranks);
    const auto of_rank = roots_of(own);
    const auto as_text = roots_as_text(own);
    CHECK(of_rank.size() == as_text.size());
    roots.insert(roots.end(), of_rank.begin(), of_rank.end());
    texts.insert(texts.end(), as_text.begin(), as_text.end());
  }
  return sum_of(roots, texts);
}

}  // namespace

TEST_CASE("the sum of some leaves is a tree over their indices") {
  CHECK(sum_by_ranks(1, 1) == "0");
  CHECK(sum_by_ranks(3, 1) == "((0+1)+2)");
  CHECK(sum_by_ranks(4, 1) == "((0+1)+(2+3))");
  CHECK(sum_by_ranks(7, 1) == "(((0+1)+(2+3))+((4+5)+6))");
}

TEST_CASE("the sum is the same for any number of ranks") {
  for (std::int64_t leaves = 1; leaves <= 70; ++leaves)
    for (int ranks = 2; ranks <= 24; ++ranks) {
      CAPTURE(leaves);
      CAPTURE(ranks);
      REQUIRE(sum_by_ranks(leaves, ranks) == sum_by_ranks(leaves, 1));
    }
}

TEST_CASE("shares are contiguous, differ by one leaf at most, and rank 0 has one") {
  for (std::int64_t leaves = 1; leaves <= 40; ++leaves)
    for (int ranks = 1; ranks <= 50; ++ranks) {
      CAPTURE(leaves);
      CAPTURE(ranks);
      std::int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        const Leaves own = leaves_of(leaves, r, ranks);
        REQUIRE(own.begin == next);
        REQUIRE(own.size() >= leaves / ranks);
        REQUIRE(own.size() <= (leaves + ranks - 1) / ranks);
        next = own.end;
      }
      REQUIRE(next == leaves);
      REQUIRE(leaves_of(leaves, 0, ranks).size() >= 1);
    }
}
