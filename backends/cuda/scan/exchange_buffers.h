// SPDX-License-Identifier: Apache-2.0
// Exchanges of a resident loop through shared memory. The blocks of a cluster pass the operand of a product to each
// other: who computes an element stores it in the buffer of its own block, and the block sends what it owns to the
// others. A product reads the buffer of its own block only. An operand is sent only if a product reads it after a wait
// of the cluster (buffer_slots.h), so every block is still there when others store into its shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll::cuda {

// Columns of an operand, from `first` on: an output of a node that computes by units.
struct ExchangeSource {
  std::int32_t node = -1;
  std::int32_t output = 0;
  std::int64_t first = 0;
};

// An operand [m, k] in the format of the product, rows of a group only, k_exchange_slots times. Eight rows by 16 bytes
// are one piece of memory, as ldmatrix and wgmma read them ("core matrix", PTX ISA). Pieces of the same columns follow
// each other; those of the next 16 bytes lie `chunk` bytes further: 32 more than the rows need, so that the four chunks
// that a warp reads at the same time lie in different banks.
struct ExchangeBuffer {
  ValueId a = {};
  std::vector<ExchangeSource> sources = {};
  std::vector<int> products = {};  // of the plan: that read it
  std::int64_t m = 0, k = 0, row = 0;  // of these products
  std::size_t element = 4;         // bytes, in the buffer
  std::int64_t chunk = 0, slot = 0;  // bytes
  std::size_t at = 0;              // in the shared memory of a block
  std::int64_t vector() const { return 16 / static_cast<std::int64_t>(element); }  // elements of a chunk in a row
};
// One is read while the next one is written, so a wait for each exchange suffices.
inline constexpr int k_exchange_slots = 2;

// A result of a unit's expression that also goes to a buffer, from column `first` on.
struct PassedResult {
  int buffer = 0;
  std::int64_t first = 0;
  std::vector<std::size_t> results = {};  // the same value wherever the product might read it; the first one is passed
  bool only_there = false;                // nothing else reads it
};

}  // namespace unroll::cuda
