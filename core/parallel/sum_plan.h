// SPDX-License-Identifier: Apache-2.0
// The plan by which ranks sum the micro-batches of an update: messages and additions, the same for vectors of the host
// and of devices.
//
// Ranks meet in levels, one for each prime factor f of their number: f neighboring groups become one. A rank sends each
// of f - 1 partners a slice of its partial sums, receives theirs of its own slice, and adds halves of one sum. In the
// end it has the whole sum of a slice; the levels in reverse gather the slices. So a rank sends 2 (f - 1) messages for
// each factor (2 log2 R for R = 2^n ranks), and 2 (R - 1) / R times the elements if each rank has one partial sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace unroll {

struct SumPlan {
  // Elements [at, at + n) of a vector: a partial sum ("block") that this rank holds, work memory, or the result.
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
  std::optional<Copy> slice;          // into the result; set if the last addition does not write there
  std::vector<Stage> gather;          // of the other slices
  std::size_t work = 0;               // elements of work memory
};

// Return the ascending factors of a number of ranks, and the partners of a rank in a level, by group, including itself.
std::vector<int> level_factors(int ranks);
std::vector<int> level_partners(int rank, int stride, int factor);

// The plan of rank `rank`, which holds partial_sums_before_last(micro_batches_of(n, rank, ranks)), `elements` each.
SumPlan sum_plan(std::int64_t n, int rank, int ranks, std::size_t elements);

}  // namespace unroll
