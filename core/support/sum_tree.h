// SPDX-License-Identifier: Apache-2.0
// The order in which the micro-batches (leaves) of an update are summed: a binary tree over their indices, whoever
// holds them. Block [first, first + leaves) with `leaves` a power of two that divides `first` is the sum of its two
// halves; where the number of leaves is no power of two, halves without leaves are left out. A sum of per-rank sums
// would depend on the number of ranks in its last bits; this sum does not.
#pragma once

#include <cstdint>
#include <vector>

namespace unroll {

struct Leaves {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
// The share of rank r: contiguous, and rank 0 has one at least. Shares differ by one leaf at most.
Leaves leaves_of(std::int64_t leaves, int rank, int ranks);

struct TreeBlock {
  std::int64_t first = 0, leaves = 1;
  std::int64_t end() const { return first + leaves; }
  friend bool operator==(const TreeBlock&, const TreeBlock&) = default;
};
// Whether the two are the halves of a block.
bool are_halves(const TreeBlock& left, const TreeBlock& right);
// The fewest blocks that hold these leaves, in order: the roots of a rank.
std::vector<TreeBlock> roots_of(Leaves leaves);
// The roots of all leaves but the last one, and the last one: what a rank holds before it adds its last leaf.
std::vector<TreeBlock> blocks_before_last_sum(Leaves leaves);

// Adds leaves one after the other, with the sums that wait for their other half on a stack.
class SumStack {
 public:
  explicit SumStack(Leaves leaves) : next_(leaves.begin) {}
  std::size_t size() const { return blocks_.size(); }
  // The next leaf is on top now. The number of sums that follow: the top is added to the one below it, which is the
  // top then.
  int push();
  const std::vector<TreeBlock>& blocks() const { return blocks_; }

 private:
  std::int64_t next_;
  std::vector<TreeBlock> blocks_;
};

// How to add neighboring blocks together, in order: each step adds block `right` to block `left`.
struct SumStep {
  int left, right;
};
// Of blocks that hold the leaves [0, n): all of them. The sum is in block 0.
std::vector<SumStep> sum_steps(const std::vector<TreeBlock>& blocks);
// Of any blocks: those that are halves of one. `blocks` are left, `places` are where they are.
std::vector<SumStep> sum_halves(std::vector<TreeBlock>& blocks, std::vector<int>& places);

}  // namespace unroll
