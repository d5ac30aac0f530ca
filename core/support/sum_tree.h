// SPDX-License-Identifier: Apache-2.0
// The order in which the micro-batches of an update are summed: a binary tree over their indices, on any number of
// ranks. Partial sum [first, first + n) with `n` a power of two that divides `first` is the sum of its two halves;
// halves without micro-batches are left out. A sum of per-rank sums would depend on the number of ranks in its last
// bits; this sum does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unroll {

// Indices [begin, end) of micro-batches.
struct MicroBatches {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
// The share of a rank in n micro-batches: contiguous. Rank 0 has one at least, and shares differ by one at most.
MicroBatches micro_batches_of(std::int64_t n, int rank, int ranks);

struct PartialSum {
  std::int64_t first = 0, n = 1;
  std::int64_t end() const { return first + n; }
  friend bool operator==(const PartialSum&, const PartialSum&) = default;
};
// True for the two halves of a partial sum.
bool are_halves(const PartialSum& left, const PartialSum& right);
// The fewest partial sums that hold these micro-batches, in order.
std::vector<PartialSum> partial_sums_of(MicroBatches batches);
// The partial sums of all but the last micro-batch, and the last one: a rank holds these before its last addition.
std::vector<PartialSum> partial_sums_before_last(MicroBatches batches);

// Adds micro-batches one after the other, with the sums that wait for their other half on a stack.
class SumStack {
 public:
  explicit SumStack(MicroBatches batches) : next_(batches.begin) {}
  std::size_t size() const { return sums_.size(); }
  // Puts the next micro-batch on top and returns the number of additions that follow: each adds the top to the sum
  // below it, which is then the top.
  int push();
  const std::vector<PartialSum>& partial_sums() const { return sums_; }

 private:
  std::int64_t next_;
  std::vector<PartialSum> sums_;
};

// One addition of neighboring partial sums: `right` is added to `left`, both indices of a list.
struct SumStep {
  std::size_t left, right;
};
// Additions that leave the whole sum of the micro-batches [0, n) in partial sum 0.
std::vector<SumStep> sum_steps(const std::vector<PartialSum>& sums);
// Additions of all halves among any partial sums. On return `sums` are the ones left, and `places` their indices.
std::vector<SumStep> sum_halves(std::vector<PartialSum>& sums, std::vector<std::size_t>& places);

}  // namespace unroll
