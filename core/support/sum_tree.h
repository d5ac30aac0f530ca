// SPDX-License-Identifier: Apache-2.0
// The summation order of the micro-batches (leaves) of an update: a binary tree over their indices, independent of
// their ranks. Block [first, first + leaves), with `leaves` a power of two that divides `first`, is the sum of its two
// halves. If the number of micro-batches is not a power of two, empty halves are skipped. The bits of a sum of per-rank
// sums would depend on the number of ranks; the bits of this sum do not.
#pragma once

#include <cstdint>
#include <vector>

namespace unroll {

struct Leaves {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
// Returns the contiguous micro-batches of rank r. Rank 0 has at least one; the numbers differ by at most one.
Leaves leaves_of(std::int64_t leaves, int rank, int ranks);

struct TreeBlock {
  std::int64_t first = 0, leaves = 1;
  std::int64_t end() const { return first + leaves; }
  friend bool operator==(const TreeBlock&, const TreeBlock&) = default;
};
// True if the two are the halves of a block.
bool are_halves(const TreeBlock& left, const TreeBlock& right);
// Returns the fewest blocks that cover these micro-batches, in order: the partial sums of a rank.
std::vector<TreeBlock> roots_of(Leaves leaves);
// Returns a rank's blocks before its last sum: the partial sums of all micro-batches but the last, then the last one.
std::vector<TreeBlock> blocks_before_last_sum(Leaves leaves);

// Adds micro-batches one after another. A stack holds the sums that wait for their other half.
class SumStack {
 public:
  explicit SumStack(Leaves leaves) : next_(leaves.begin) {}
  std::size_t size() const { return blocks_.size(); }
  // Pushes the next micro-batch. Returns the number of additions that follow: each adds the top to the block below it,
  // which becomes the top.
  int push();
  const std::vector<TreeBlock>& blocks() const { return blocks_; }

 private:
  std::int64_t next_;
  std::vector<TreeBlock> blocks_;
};

// An addition of neighboring blocks: adds block `right` to block `left`.
struct SumStep {
  int left, right;
};
// Returns the additions that combine blocks of the micro-batches [0, n) into one sum, in block 0.
std::vector<SumStep> sum_steps(const std::vector<TreeBlock>& blocks);
// Returns the additions of matching halves among any blocks. Outputs the remaining `blocks` and their indices,
// `places`.
std::vector<SumStep> sum_halves(std::vector<TreeBlock>& blocks, std::vector<int>& places);

}  // namespace unroll
