// SPDX-License-Identifier: Apache-2.0
// Batches of sequences of like length, so that little of a batch is padding. Which sequences meet is a pure function of
// (seed, epoch, index).
#pragma once

#include <cstdint>
#include <vector>

namespace unroll {

// At least `length`, one of few: multiples of 4, above 64 with eight in an octave. Each is a shape that is compiled.
std::int64_t padded_length(std::int64_t length);

struct BatchSize {
  std::int64_t rows = 1;    // at most
  std::int64_t tokens = 0;  // at most, padding among them, but for a sequence that is longer by itself; 0: any number
  bool nested = false;      // a sequence has first * second tokens, else as many as the longer of the two
};

class Buckets {
 public:
  struct Lengths {
    std::int64_t first = 0, second = 0;  // of a source and its target; a plain sequence has the first only
  };
  struct Rows {
    std::vector<std::int64_t> rows;  // at least 1, at most batch_at(padded)
    Lengths padded;                  // what their longest ones are padded to
  };
  // Throws Error(usage) when size.rows is below 1 or size.tokens below 0.
  Buckets(std::vector<Lengths> lengths, const BatchSize& size);

  std::int64_t n_batches() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  // How many sequences of padded lengths a batch has room for.
  std::int64_t batch_at(const Lengths& padded) const;
  // Every sequence once in the batches of an epoch: sequences of equal padded lengths in a random order, cut into
  // batches, and these in a random order.
  Rows shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t index) const;
  Rows sorted(std::int64_t index) const;  // shortest first

 private:
  std::vector<std::int64_t> by_length(std::vector<std::int64_t> order) const;
  Rows cut(const std::vector<std::int64_t>& order, std::int64_t index) const;

  std::vector<Lengths> padded_;  // by sequence
  BatchSize size_;
  std::vector<std::int64_t> sorted_;
  std::vector<std::int64_t> begins_;  // of each batch in any order by length, and the end
  // Of the last epoch asked for.
  mutable std::vector<std::int64_t> shuffled_, batches_;
  mutable std::uint64_t seed_ = 0;
  mutable std::int64_t epoch_ = -1;
};

}  // namespace unroll
