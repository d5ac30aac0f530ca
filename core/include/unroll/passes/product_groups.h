// SPDX-License-Identifier: Apache-2.0
// Matmuls of a planned graph, each with the single elementwise node that reads its result: bias, activation, cast,
// residual, the gates of a cell. A matmul kernel can compute that node before the result leaves its registers or
// caches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// The readers of a matmul result [M, N] by gate, N = gates * units. Readers may follow movement that keeps the order of
// elements: reshape, slice of columns, broadcast to another rank. Each reader takes all rows of one gate, columns [gate
// * units, (gate + 1) * units). Gates are as narrow as the ranges read, and include gates without a reader. If readers
// take ranges of several widths or at other positions, there is a single gate.
struct UNROLL_API ProductGates {
  struct Read {
    std::int32_t node = -1;  // not a movement; -1: a named output
    std::int32_t operand = 0;
    ValueId value;  // the value read: the matmul result, or a result of `movement`
    std::int64_t gate = 0;
  };
  std::int64_t m = 0, n = 0, gates = 1, units = 0;
  std::vector<Read> reads;             // in node order
  std::vector<std::int32_t> movement;  // nodes between the matmul and its readers, ascending
};

// Returns the readers of `product`, a matmul node of two matrices with at least one element.
UNROLL_API ProductGates product_gates(const Graph& planned, std::int32_t product);

struct UNROLL_API ProductGroup {
  // The indexing of an epilogue operand, relative to the epilogue's results [M, units].
  enum class Role : std::uint8_t {
    product,   // a gate of the matmul result
    scalar,    // one element
    bias,      // [units], the same in every row
    row,       // [M], the same in every column
    residual,  // [M, units]
    other,     // another pattern: [T, 1, units] of [T, B, units]
  };
  struct Operand {
    Role role = Role::other;
    std::int64_t gate = 0;  // of the matmul result
    friend bool operator==(const Operand&, const Operand&) = default;
  };
  std::int32_t product = -1;      // node: a matmul of two matrices
  std::int32_t epilogue = -1;     // node: elementwise or fused; each result has M * units elements in one gate's order
  std::vector<Operand> operands;  // of the epilogue
  // Sizes of the matmul result [M, N], N = gates * units. With one gate, units is N.
  std::int64_t m = 0, n = 0, gates = 1, units = 0;
};

// Returns the groups in the order of the epilogues. A matmul or an epilogue is in at most one group. An epilogue of two
// matmuls takes the later one; the other is a residual.
UNROLL_API std::vector<ProductGroup> product_groups(const Graph& planned);

// Returns a text such as "%7 matmul [64,32] + %8 fused: add, tanh; bias, residual; to bf16". With gates: "%7 matmul
// [64,96], 3 gates of 32 units + %12 fused: add, sigmoid, mul; gate 0, residual, gate 1, gate 2".
UNROLL_API std::string describe(const ProductGroup& group, const Graph& planned);

}  // namespace unroll
