// SPDX-License-Identifier: Apache-2.0
#include "core/support/sum_tree.h"

#include <utility>

namespace unroll {

MicroBatches micro_batches_of(std::int64_t n, int rank, int ranks) {
  const auto bound = [&](std::int64_t r) { return (n * r + ranks - 1) / ranks; };
  return {bound(rank), bound(rank + 1)};
}

bool are_halves(const PartialSum& left, const PartialSum& right) {
  return left.n == right.n && left.end() == right.first && left.first % (2 * left.n) == 0;
}

int SumStack::push() {
  int additions = 0;
  sums_.push_back({next_++, 1});
  while (sums_.size() > 1 && are_halves(sums_.end()[-2], sums_.back())) {
    sums_.pop_back();
    sums_.back().n *= 2;
    ++additions;
  }
  return additions;
}

std::vector<PartialSum> partial_sums_of(MicroBatches batches) {
  SumStack stack(batches);
  for (std::int64_t i = batches.begin; i < batches.end; ++i) stack.push();
  return stack.partial_sums();
}

std::vector<PartialSum> partial_sums_before_last(MicroBatches batches) {
  if (batches.size() == 0) return {};
  std::vector<PartialSum> sums = partial_sums_of({batches.begin, batches.end - 1});
  sums.push_back({batches.end - 1, 1});
  return sums;
}

std::vector<SumStep> sum_halves(std::vector<PartialSum>& sums, std::vector<std::size_t>& places) {
  std::vector<SumStep> steps;
  std::vector<PartialSum> left;
  places.clear();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    left.push_back(sums[i]);
    places.push_back(i);
    while (left.size() > 1 && are_halves(left.end()[-2], left.back())) {
      steps.push_back({places.end()[-2], places.back()});
      left.pop_back();
      places.pop_back();
      left.back().n *= 2;
    }
  }
  sums = std::move(left);
  return steps;
}

std::vector<SumStep> sum_steps(const std::vector<PartialSum>& sums) {
  std::vector<PartialSum> left = sums;
  std::vector<std::size_t> places;
  std::vector<SumStep> steps = sum_halves(left, places);
  for (; places.size() > 1; places.pop_back())  // halves whose other half has no micro-batch
    steps.push_back({places.end()[-2], places.back()});
  return steps;
}

}  // namespace unroll
