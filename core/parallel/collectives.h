// SPDX-License-Identifier: Apache-2.0
// What all ranks do together, built on Communicator::exchange. Results are the same on every rank. Ranks meet in levels
// (sum_plan.h), so that a rank sends and receives few messages even where there are hundreds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/parallel/sum_plan.h"
#include "unroll/parallel/communicator.h"

namespace unroll {

using ByteList = std::vector<std::byte>;

// What each rank gives, by rank. The sizes may differ.
std::vector<ByteList> all_gather(Communicator& ranks, std::span<const std::byte> mine);
// What rank 0 gives, on every rank.
ByteList broadcast(Communicator& ranks, std::span<const std::byte> from_rank_0);
// Whether `mine` holds on any rank.
bool any(Communicator& ranks, bool mine);

// sum_of_leaves() for vectors of one type, again and again.
class HostSum {
 public:
  HostSum(Communicator& ranks, std::int64_t leaves, DType dtype, std::int64_t elements);
  void run(std::span<const std::byte* const> blocks, std::byte* result);

 private:
  Communicator& ranks_;
  DType dtype_;
  std::size_t width_, n_blocks_;
  SumPlan plan_;
  ByteList work_;
};

}  // namespace unroll
