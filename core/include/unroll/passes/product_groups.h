// SPDX-License-Identifier: Apache-2.0
// Products of a planned graph with the elementwise node that alone reads their result: bias, activation, cast,
// residual, the gates of a cell. A kernel that computes the product can compute that node before the result leaves its
// registers or caches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// How a product [M, N] is read, N = gates * units: behind movement that keeps the order of its elements (reshape, slice
// of columns, broadcast to another rank), every reader takes all rows of one gate, columns [gate * units, (gate + 1) *
// units). Gates are as narrow as what is read; one that nobody reads counts too. Where readers take ranges of several
// widths, or of any other place, there is one gate.
struct UNROLL_API ProductGates {
  struct Read {
    std::int32_t node = -1;  // not a movement; -1: a named output
    std::int32_t operand = 0;
    ValueId value;  // what it reads: the product, or a result of `movement`
    std::int64_t gate = 0;
  };
  std::int64_t m = 0, n = 0, gates = 1, units = 0;
  std::vector<Read> reads;             // by node
  std::vector<std::int32_t> movement;  // nodes between the product and its readers, ascending
};

// `product`: a matmul node of one matrix by another, with elements.
UNROLL_API ProductGates product_gates(const Graph& planned, std::int32_t product);

struct UNROLL_API ProductGroup {
  // How the epilogue reads an operand, element by element of its results [M, units].
  enum class Role : std::uint8_t {
    product,   // a gate of the product
    scalar,    // one element
    bias,      // [units], the same in every row
    row,       // [M], the same in every column
    residual,  // [M, units]
    other,     // of another pattern: [T, 1, units] of [T, B, units]
  };
  struct Operand {
    Role role = Role::other;
    std::int64_t gate = 0;  // of the product
    friend bool operator==(const Operand&, const Operand&) = default;
  };
  std::int32_t product = -1;      // node: a matmul of one matrix by another
  std::int32_t epilogue = -1;     // node: elementwise or fused; each result has M * units elements in one gate's order
  std::vector<Operand> operands;  // of the epilogue
  // Of the product, N = gates * units. With one gate, units is N.
  std::int64_t m = 0, n = 0, gates = 1, units = 0;
};

// In the order of the epilogues. A product is in one group at most, and so is an epilogue: with two products it takes
// the later one, and the other is a residual.
UNROLL_API std::vector<ProductGroup> product_groups(const Graph& planned);

// "%7 matmul [64,32] + %8 fused: add, tanh; bias, residual; to bf16". With gates: "%7 matmul [64,96], 3 gates of 32
// units + %12 fused: add, sigmoid, mul; gate 0, residual, gate 1, gate 2".
UNROLL_API std::string describe(const ProductGroup& group, const Graph& planned);

}  // namespace unroll
