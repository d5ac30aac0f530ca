// SPDX-License-Identifier: Apache-2.0
// Collective operations of all ranks, built on Communicator::exchange. Results are the same on every rank. Ranks meet
// in levels (sum_plan.h), so that a rank sends and receives few messages even among hundreds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/parallel/sum_plan.h"
#include "unroll/parallel/communicator.h"

namespace unroll {

using ByteList = std::vector<std::byte>;

// The bytes of every rank, by rank. The sizes may differ.
std::vector<ByteList> all_gather(Communicator& ranks, std::span<const std::byte> mine);
// Returns the bytes of rank 0 on every rank.
ByteList broadcast(Communicator& ranks, std::span<const std::byte> from_rank_0);
// True if `mine` holds on any rank.
bool any(Communicator& ranks, bool mine);

// Computes sum_micro_batches() repeatedly for vectors of one type.
class HostSum {
 public:
  HostSum(Communicator& ranks, std::int64_t micro_batches, DType dtype, std::int64_t elements);
  void run(std::span<const std::byte* const> blocks, std::byte* result);

 private:
  Communicator& ranks_;
  DType dtype_;
  std::size_t width_, n_blocks_;
  SumPlan plan_;
  ByteList work_;
};

}  // namespace unroll
