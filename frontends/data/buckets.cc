// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/buckets.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "frontends/data/shuffle.h"
#include "unroll/error.h"

namespace unroll {

std::int64_t padded_length(std::int64_t length) {
  const auto octave =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(length - 1, 1))));
  const std::int64_t unit = std::max<std::int64_t>(octave / 8, 4);
  return (std::max<std::int64_t>(length, 1) + unit - 1) / unit * unit;
}

Buckets::Buckets(std::vector<Lengths> lengths, std::int64_t batch) : padded_(std::move(lengths)), batch_(batch) {
  if (batch < 1) throw Error(ErrorKind::usage, "Buckets", "batch must be at least 1; got " + std::to_string(batch));
  for (Lengths& l : padded_) l = {padded_length(l.first), padded_length(l.second)};
  std::vector<std::int64_t> order(padded_.size());
  std::iota(order.begin(), order.end(), 0);
  sorted_ = by_length(std::move(order));
}

std::int64_t Buckets::n_batches() const { return (static_cast<std::int64_t>(padded_.size()) + batch_ - 1) / batch_; }

std::vector<std::int64_t> Buckets::by_length(std::vector<std::int64_t> order) const {
  const auto key = [&](std::int64_t i) {
    const Lengths& l = padded_[static_cast<std::size_t>(i)];
    return std::pair(l.first, l.second);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return key(a) < key(b); });
  return order;
}

Buckets::Rows Buckets::cut(const std::vector<std::int64_t>& order, std::int64_t index) const {
  const auto n = static_cast<std::int64_t>(order.size());
  if (index < 0 || index >= n_batches())
    throw Error(ErrorKind::usage, "Buckets",
                "index must be in [0," + std::to_string(n_batches()) + "); got " + std::to_string(index));
  Rows r;
  const auto begin = order.begin() + index * batch_;
  r.rows.assign(begin, begin + std::min(batch_, n - index * batch_));
  for (const std::int64_t row : r.rows) {
    const Lengths& l = padded_[static_cast<std::size_t>(row)];
    r.padded = {std::max(r.padded.first, l.first), std::max(r.padded.second, l.second)};
  }
  return r;
}

Buckets::Rows Buckets::sorted(std::int64_t index) const { return cut(sorted_, index); }

Buckets::Rows Buckets::shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t index) const {
  if (seed != seed_ || epoch != epoch_) {
    shuffled_ = by_length(permutation(static_cast<std::int64_t>(padded_.size()), seed, epoch));
    batches_ = permutation(n_batches(), ~seed, epoch);
    seed_ = seed;
    epoch_ = epoch;
  }
  if (index < 0 || index >= n_batches()) return cut(shuffled_, index);  // which refuses it
  return cut(shuffled_, batches_[static_cast<std::size_t>(index)]);
}

}  // namespace unroll
