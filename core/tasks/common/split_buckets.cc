// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/common/split_buckets.h"

#include <algorithm>

namespace unroll {

SplitBuckets::SplitBuckets(SplitRows rows, std::span<const Buckets::Lengths> lengths, const BatchSize& size) {
  for (std::size_t split = 0; split < rows.size(); ++split) {
    std::vector<Buckets::Lengths> list;
    for (const std::int64_t row : rows[split]) list.push_back(lengths[row]);
    parts_[split] = {std::move(rows[split]), Buckets(std::move(list), size)};
  }
}

SplitBuckets::Chosen SplitBuckets::choose(Split split, std::uint64_t seed, std::int64_t epoch,
                                          std::int64_t index) const {
  const Part& p = part(split);
  Buckets::Rows found = split == Split::train ? p.buckets.shuffled(seed, epoch, index) : p.buckets.sorted(index);
  for (std::int64_t& row : found.rows) row = p.rows[row];
  return {std::move(found.rows), found.padded, p.buckets.batch_at(found.padded)};
}

void put_column(Tensor& ids, std::int64_t b, std::span<const std::int32_t> values, std::int64_t from) {
  const auto to = ids.values<std::int32_t>();
  const std::size_t B = ids.shape()[1];
  for (std::size_t t = 0; t < values.size(); ++t) to[(t + from) * B + b] = values[t];
}

void put_row(Tensor& ids, std::int64_t b, std::span<const std::int32_t> values) {
  std::copy(values.begin(), values.end(), ids.values<std::int32_t>().begin() + b * ids.shape()[1]);
}

}  // namespace unroll
