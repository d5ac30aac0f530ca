// SPDX-License-Identifier: Apache-2.0
// Collective operations on Communicator::exchange, with the same results on every rank. Ranks communicate in levels
// (sum_plan.h), so that each rank sends and receives few messages even among hundreds of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/parallel/sum_plan.h"
#include "unroll/parallel/communicator.h"

namespace unroll {

using ByteList = std::vector<std::byte>;

// Returns the bytes of each rank, by rank. The sizes may differ.
std::vector<ByteList> all_gather(Communicator& ranks, std::span<const std::byte> mine);
// Returns the bytes of rank 0 on every rank.
ByteList broadcast(Communicator& ranks, std::span<const std::byte> from_rank_0);
// True if `mine` is true on any rank.
bool any(Communicator& ranks, bool mine);

// Repeated sum_of_leaves() for vectors of one type.
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
