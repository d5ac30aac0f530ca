// SPDX-License-Identifier: Apache-2.0
// Batches of sequences of similar length, which keeps padding small. The batches of an epoch depend only on (seed,
// epoch, index).
#pragma once

#include <cstdint>
#include <vector>

namespace unroll {

// Rounds a length up to one of few compiled shapes: multiples of 4, above 64 eight values per octave.
std::int64_t padded_length(std::int64_t length);

struct BatchSize {
  std::int64_t rows = 1;    // maximum
  std::int64_t tokens = 0;  // maximum including padding, except for a single longer sequence; 0: no limit
  bool nested = false;      // true: a sequence has first * second tokens; false: the longer of the two lengths
};

class Buckets {
 public:
  struct Lengths {
    std::int64_t first = 0, second = 0;  // of a source and its target; a plain sequence uses `first` only
  };
  struct Rows {
    std::vector<std::int64_t> rows;  // at least 1, at most batch_at(padded)
    Lengths padded;                  // padded lengths of the longest sequences
  };
  // Throws Error(usage) when size.rows is below 1 or size.tokens below 0.
  Buckets(std::vector<Lengths> lengths, const BatchSize& size);

  std::int64_t n_batches() const { return std::ssize(begins_) - 1; }
  // Returns the maximum number of sequences with these padded lengths in a batch.
  std::int64_t batch_at(const Lengths& padded) const;
  // Returns a batch of the epoch; every sequence occurs once. Sequences of equal padded lengths are shuffled and cut
  // into batches, then the batches are shuffled.
  Rows shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t index) const;
  Rows sorted(std::int64_t index) const;  // shortest first

 private:
  std::vector<std::int64_t> by_length(std::vector<std::int64_t> order) const;
  Rows cut(const std::vector<std::int64_t>& order, std::int64_t index) const;

  std::vector<Lengths> padded_;  // by sequence
  BatchSize size_;
  std::vector<std::int64_t> sorted_;
  std::vector<std::int64_t> begins_;  // of each batch in a length order, and the end
  // Cache of the last requested epoch.
  mutable std::vector<std::int64_t> shuffled_, batches_;
  mutable std::uint64_t seed_ = 0;
  mutable std::int64_t epoch_ = -1;
};

}  // namespace unroll
