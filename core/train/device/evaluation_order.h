// SPDX-License-Identifier: Apache-2.0
// Which batches of a split a rank evaluates, and in which order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/support/sum_tree.h"

namespace unroll {

// Batches [first, end) of a split, shard after shard where states go from one batch of a shard to its next. Shares of
// ranks are contiguous.
class EvaluationOrder {
 public:
  // shards: 0 where a batch stands alone.
  EvaluationOrder(std::int64_t first, std::int64_t end, std::int64_t shards) : first_(first) {
    const std::int64_t n = std::max<std::int64_t>(shards, 1);
    for (std::int64_t shard = 0; shard < n; ++shard) {
      begins_.push_back(size());
      for (std::int64_t i = first + (shard - first % n + n) % n; i < end; i += n) {
        if (shards == 0 && i > first) begins_.push_back(size());
        batches_.push_back(i);
      }
    }
    begins_.push_back(size());
  }
  std::int64_t n_shares() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  Leaves share(int rank, int ranks) const {
    const Leaves own = leaves_of(n_shares(), rank, ranks);
    return {begins_[static_cast<std::size_t>(own.begin)], begins_[static_cast<std::size_t>(own.end)]};
  }
  std::int64_t batch(std::int64_t at) const { return batches_[static_cast<std::size_t>(at)]; }
  // Equally long reports in this order, in the order of the batches.
  std::vector<float> by_index(const std::vector<float>& reports) const {
    std::vector<float> sorted(reports.size());
    const std::size_t length = batches_.empty() ? 0 : reports.size() / batches_.size();
    for (std::size_t at = 0; at < batches_.size(); ++at)
      std::copy_n(&reports[at * length], length, &sorted[static_cast<std::size_t>(batches_[at] - first_) * length]);
    return sorted;
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(batches_.size()); }
  std::int64_t first_;
  std::vector<std::int64_t> batches_, begins_;
};

}  // namespace unroll
