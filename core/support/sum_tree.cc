// SPDX-License-Identifier: Apache-2.0
#include "core/support/sum_tree.h"

#include <utility>

namespace unroll {

Leaves leaves_of(std::int64_t leaves, int rank, int ranks) {
  const auto bound = [&](std::int64_t r) { return (leaves * r + ranks - 1) / ranks; };
  return {bound(rank), bound(rank + 1)};
}

bool are_halves(const TreeBlock& left, const TreeBlock& right) {
  return left.leaves == right.leaves && left.end() == right.first && left.first % (2 * left.leaves) == 0;
}

int SumStack::push() {
  int sums = 0;
  blocks_.push_back({next_++, 1});
  while (blocks_.size() > 1 && are_halves(blocks_.end()[-2], blocks_.back())) {
    blocks_.pop_back();
    blocks_.back().leaves *= 2;
    ++sums;
  }
  return sums;
}

std::vector<TreeBlock> roots_of(Leaves leaves) {
  SumStack stack(leaves);
  for (std::int64_t i = leaves.begin; i < leaves.end; ++i) stack.push();
  return stack.blocks();
}

std::vector<TreeBlock> blocks_before_last_sum(Leaves leaves) {
  if (leaves.size() == 0) return {};
  std::vector<TreeBlock> blocks = roots_of({leaves.begin, leaves.end - 1});
  blocks.push_back({leaves.end - 1, 1});
  return blocks;
}

std::vector<SumStep> sum_halves(std::vector<TreeBlock>& blocks, std::vector<int>& places) {
  std::vector<SumStep> steps;
  std::vector<TreeBlock> left;
  places.clear();
  for (int i = 0; i < static_cast<int>(blocks.size()); ++i) {
    left.push_back(blocks[static_cast<std::size_t>(i)]);
    places.push_back(i);
    while (left.size() > 1 && are_halves(left.end()[-2], left.back())) {
      steps.push_back({places.end()[-2], places.back()});
      left.pop_back();
      places.pop_back();
      left.back().leaves *= 2;
    }
  }
  blocks = std::move(left);
  return steps;
}

std::vector<SumStep> sum_steps(const std::vector<TreeBlock>& blocks) {
  std::vector<TreeBlock> left = blocks;
  std::vector<int> places;
  std::vector<SumStep> steps = sum_halves(left, places);
  for (; places.size() > 1; places.pop_back())  // blocks whose other half is empty
    steps.push_back({places.end()[-2], places.back()});
  return steps;
}

}  // namespace unroll
