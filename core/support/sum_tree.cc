// SPDX-License-Identifier: Apache-2.0
#include "core/support/sum_tree.h"

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

std::vector<SumStep> sum_steps(const std::vector<TreeBlock>& roots) {
  struct Part {
    TreeBlock block;
    int at;
  };
  std::vector<SumStep> steps;
  std::vector<Part> stack;
  const auto add_top = [&] {
    steps.push_back({stack.end()[-2].at, stack.back().at});
    stack.pop_back();
  };
  for (int i = 0; i < static_cast<int>(roots.size()); ++i) {
    stack.push_back({roots[static_cast<std::size_t>(i)], i});
    while (stack.size() > 1 && are_halves(stack.end()[-2].block, stack.back().block)) {
      add_top();
      stack.back().block.leaves *= 2;
    }
  }
  while (stack.size() > 1) add_top();  // blocks whose other half has no leaves
  return steps;
}

}  // namespace unroll
