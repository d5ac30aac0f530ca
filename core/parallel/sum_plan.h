// SPDX-License-Identifier: Apache-2.0
// The messages and additions by which ranks sum the micro-batches of an update, for host and device vectors.
//
// Ranks communicate in levels, one for each prime factor f of their number: f neighboring groups become one. A rank
// sends a slice of its blocks to each of f - 1 partners, receives their parts of its own slice, and adds block halves.
// In the end it has the sum of one slice. The levels in reverse gather the slices. A rank sends 2 (f - 1) messages per
// factor, 2 log2 R for R = 2^n ranks, and 2 (R - 1) / R times the elements if each rank has one partial sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace unroll {

struct SumPlan {
  // Elements [at, at + n) of a vector: a block of this rank, work memory, or the result.
  struct Part {
    enum class Where : std::uint8_t { block, work, result };
    Where where = Where::work;
    std::size_t block = 0, at = 0, n = 0;
  };
  struct Message {
    int peer;
    Part part;
  };
  struct Addition {
    Part left, right, sum;  // the sum may overwrite an operand
  };
  // All messages at once, then the additions in order.
  struct Stage {
    std::vector<Message> send, receive;
    std::vector<Addition> additions;
  };
  struct Copy {
    Part from, to;
  };
  std::vector<Stage> stages;          // up to the sum of a slice
  std::optional<Copy> slice;          // copies the slice into the result, if needed
  std::vector<Stage> gather;          // gathers the other slices
  std::size_t work = 0;               // elements of work memory
};

// Return the ascending factors of a number of ranks, and the partners of a rank in a level, by group, including itself.
std::vector<int> level_factors(int ranks);
std::vector<int> level_partners(int rank, int stride, int factor);

// Returns the plan of `rank`, which holds blocks_before_last_sum(leaves_of(leaves, rank, ranks)) of `elements` each.
SumPlan sum_plan(std::int64_t leaves, int rank, int ranks, std::size_t elements);

}  // namespace unroll
