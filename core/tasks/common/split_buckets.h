// SPDX-License-Identifier: Apache-2.0
// Sequences of a text task: splits, batches of similar length in each split, and filled batch tensors.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/data/batch/buckets.h"
#include "core/tasks/common/task_parts.h"

namespace unroll {

class SplitBuckets {
 public:
  SplitBuckets() = default;
  SplitBuckets(SplitRows rows, std::span<const Buckets::Lengths> lengths, const BatchSize& size);  // lengths: by row

  const std::vector<std::int64_t>& rows(Split split) const { return part(split).rows; }
  std::int64_t n_batches(Split split) const { return part(split).buckets.n_batches(); }
  // In training a batch in the order of (seed, epoch); otherwise the shortest first.
  struct Chosen {
    std::vector<std::int64_t> rows;  // of the data
    Buckets::Lengths padded;
    // B >= rows.size(). `padded` determines it, so a padded length has one shape. Empty sequences fill up
    std::int64_t batch;
  };
  Chosen choose(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const;

 private:
  struct Part {
    std::vector<std::int64_t> rows;
    Buckets buckets;  // of indices into rows
  };
  const Part& part(Split split) const { return *parts_[split]; }
  PerSplit<std::optional<Part>> parts_;
};

// A label of padding.
inline constexpr std::int32_t k_no_label = -1;

// Set one row of the batch in ids: i32 [T,B] from step `from` on, or [B,T]. Other elements stay unchanged.
void put_column(Tensor& ids, std::int64_t b, std::span<const std::int32_t> values, std::int64_t from = 0);
void put_row(Tensor& ids, std::int64_t b, std::span<const std::int32_t> values);

}  // namespace unroll
