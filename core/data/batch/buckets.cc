// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch/buckets.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/data/batch/shuffle.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

Buckets::Lengths larger(const Buckets::Lengths& a, const Buckets::Lengths& b) {
  return {std::max(a.first, b.first), std::max(a.second, b.second)};
}

}  // namespace

std::int64_t padded_length(std::int64_t length) {
  const auto octave =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(length - 1, 1))));
  const std::int64_t unit = std::max<std::int64_t>(octave / 8, 4);
  return (std::max<std::int64_t>(length, 1) + unit - 1) / unit * unit;
}

Buckets::Buckets(std::vector<Lengths> lengths, const BatchSize& size) : padded_(std::move(lengths)), size_(size) {
  if (size.rows < 1 || size.tokens < 0)
    throw Error(ErrorKind::usage, "Buckets",
                "batch must be at least 1 and batch_tokens at least 0; got " + std::to_string(size.rows) + " and " +
                    std::to_string(size.tokens));
  size_.rows = std::min(size.rows, std::max<std::int64_t>(std::ssize(padded_), 1));
  for (Lengths& l : padded_) l = {padded_length(l.first), padded_length(l.second)};
  std::vector<std::int64_t> order(padded_.size());
  std::iota(order.begin(), order.end(), 0);
  sorted_ = by_length(std::move(order));
  // The result is the same in every length order, because sequences of equal padded lengths are interchangeable.
  Lengths longest;
  begins_.push_back(0);
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    const Lengths grown = larger(longest, padded_[sorted_[i]]);
    const std::int64_t count = static_cast<std::int64_t>(i) - begins_.back();
    if (count > 0 && count + 1 > batch_at(grown)) {
      begins_.push_back(static_cast<std::int64_t>(i));
      longest = padded_[sorted_[i]];
    } else {
      longest = grown;
    }
  }
  if (!sorted_.empty()) begins_.push_back(std::ssize(sorted_));
}

std::int64_t Buckets::batch_at(const Lengths& padded) const {
  if (size_.tokens == 0) return size_.rows;
  const std::int64_t tokens = size_.nested ? padded.first * padded.second : std::max(padded.first, padded.second);
  return std::clamp<std::int64_t>(size_.tokens / std::max<std::int64_t>(tokens, 1), 1, size_.rows);
}

std::vector<std::int64_t> Buckets::by_length(std::vector<std::int64_t> order) const {
  const auto key = [&](std::int64_t i) {
    const Lengths& l = padded_[i];
    return std::pair(l.first, l.second);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return key(a) < key(b); });
  return order;
}

Buckets::Rows Buckets::cut(const std::vector<std::int64_t>& order, std::int64_t index) const {
  if (index < 0 || index >= n_batches())
    throw Error(ErrorKind::usage, "Buckets",
                "index must be in [0," + std::to_string(n_batches()) + "); got " + std::to_string(index));
  Rows r;
  r.rows.assign(order.begin() + begins_[index], order.begin() + begins_[index + 1]);
  for (const std::int64_t row : r.rows) r.padded = larger(r.padded, padded_[row]);
  return r;
}

Buckets::Rows Buckets::sorted(std::int64_t index) const { return cut(sorted_, index); }

Buckets::Rows Buckets::shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t index) const {
  if (seed != seed_ || epoch != epoch_) {
    shuffled_ = by_length(permutation(std::ssize(padded_), seed, epoch));
    batches_ = permutation(n_batches(), ~seed, epoch);
    seed_ = seed;
    epoch_ = epoch;
  }
  if (index < 0 || index >= n_batches()) return cut(shuffled_, index);  // throws, as `index` is out of range
  return cut(shuffled_, batches_[index]);
}

}  // namespace unroll
