// SPDX-License-Identifier: Apache-2.0
// The expression IR: a pointwise group for one element, or a fused reduction for one row, as instructions on registers,
// with the strides of the operands. Every backend starts from it: `cpu` interprets it over tiles, the printers
// (print_expression.h) translate it for compilers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/common/strides.h"
#include "unroll/ir/graph.h"
#include "unroll/support/types.h"

namespace unroll::common {

// Registers: 0 .. inputs-1 hold the inputs, then the constants, then one per instruction in order (SSA). In a row
// expression a register holds a row: its columns, or one value that elementwise instructions broadcast.
struct Instruction {
  // Elementwise: unary, binary, compare, logical, select or cast. For element e of the shape, in row-major order, also:
  //   iota            its index along an axis: e / inner % extent
  //   random_uniform  number b * extent + e of RNG stream `rng_stream` (core/support/philox.h), in 64 bits; a is a key,
  //                   b i32
  // Only in row expressions, which have neither iota nor draws:
  //   reduce_sum, reduce_max  of the columns of a: one value for the row
  //   slice                   `columns` columns of a, from `first` on
  //   concat                  the columns of a, then those of b
  //   broadcast               the value of a, repeated in `columns` columns
  Op op;
  DType dtype = DType::f32;   // of the operands; of a and b for select
  DType to = DType::f32;      // of the result: for cast only, otherwise follows from op and dtype
  std::uint16_t a = 0, b = 0, c = 0;  // registers read; select: a condition, b if set, c if not
  std::int64_t first = 0, columns = 0;
  std::int64_t inner = 1, extent = 1;
  std::uint32_t rng_stream = 0;
};

struct Expression {
  struct Input {
    DType dtype;
    Strides strides;  // over the expression's shape; 0 broadcasts
    std::int64_t columns = 0;  // in a row expression: columns of the input; 1: one value for the row
    bool is_key = false;       // three i32 side by side: seed low, seed high, update. Only draws read it
  };
  struct Result {
    std::uint16_t from;  // register
    Strides strides;     // over the expression's shape; inner stride 1 unless the inner size is 1
    bool apart = false;  // true: shares no memory with inputs; false: may lie where an input with the same strides does
    // In a row expression: row i of the result is the sum of rows i * sum_rows, i * sum_rows + 1, ... of the register.
    // They are added in this order, starting from zero. Its strides: that of the last axis, and that from sum to sum.
    bool sums = false;
  };
  Shape shape;  // for a row expression: its rows, [..., columns of the widest register]
  std::int64_t sum_rows = 0;  // rows per sum, for results that are sums; 0: no such results
  std::vector<Input> inputs;
  std::vector<std::pair<DType, double>> constants;  // scalars; i32 and b8 are exact as doubles
  std::vector<Instruction> instructions;
  std::vector<Result> results;
};

// Returns the expression of one node on dense operands: elementwise, iota or random_uniform.
Expression expression_of_node(const Graph& graph, const Node& node);
// Returns the expression of a fused node's body. It may contain elementwise ops, broadcast, stop_gradient, scalar
// constants, and index values and draws of its shape. Every output has the same shape. Operands are dense. Throws
// Error(unsupported) naming the op otherwise.
Expression expression_of_body(const Graph& body);
// Returns a fused reduction as a row expression. Operands are dense. Throws Error(unsupported) naming the op otherwise.
Expression expression_of_rows(const Node& fused_reduction);

DType result_dtype(const Instruction& instruction);
// Returns the dtype of every register. Throws Error(internal) if an instruction or a result reads a register before it
// is written, or with another dtype.
std::vector<DType> register_dtypes(const Expression& expression);
// Returns the columns of every register of a row expression. Throws Error(internal) if operands do not match.
std::vector<std::int64_t> register_columns(const Expression& expression);

}  // namespace unroll::common
