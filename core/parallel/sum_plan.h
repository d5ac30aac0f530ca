// SPDX-License-Identifier: Apache-2.0
// How ranks add the leaves of an update: messages and additions, the same for vectors of the host and of devices.
//
// Ranks meet in levels, one for each prime factor f of their number: f neighboring groups become one. A rank sends each
// of f - 1 partners a slice of its blocks, receives theirs of its own slice, and adds blocks that are halves of one. In
// the end it has the whole sum of a slice; the levels in reverse gather the slices. So a rank sends 2 (f - 1) messages
// for each factor (2 log2 R for R = 2^n ranks), and 2 (R - 1) / R times the elements where each rank has one root.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace unroll {

struct SumPlan {
  // Elements [at, at + n) of a vector: a block that this rank holds, work memory, or the result.
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
    Part left, right, sum;  // the sum may be where one of the others is
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
  std::optional<Copy> slice;          // into the result, where it is not there
  std::vector<Stage> gather;          // of the other slices
  std::size_t work = 0;               // elements of work memory
};

// The factors of a number of ranks, ascending; of a level, the partners of a rank by their group, itself included.
std::vector<int> level_factors(int ranks);
std::vector<int> level_partners(int rank, int stride, int factor);

// Of rank `rank`, which holds blocks_before_last_sum(leaves_of(leaves, rank, ranks)) of `elements` each.
SumPlan sum_plan(std::int64_t leaves, int rank, int ranks, std::size_t elements);

}  // namespace unroll
