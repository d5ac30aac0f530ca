// SPDX-License-Identifier: Apache-2.0
// Vector loops of fused reductions beyond those of elementwise programs: operands with one value per row, broadcast in
// registers, and reductions of rows. All work on Elementwise::Tile.
#pragma once

#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

// As tile_function and pair_function (elementwise.h), but operand k has one value per row if bit k of `repeated` is
// set. Row r reads the value at its stride times r. Null if there is no such function.
Elementwise::TileFunction repeated_function(Op op, DType dtype, unsigned repeated);
Elementwise::TileFunction repeated_pair_function(Op outer, Op inner, bool inner_first, DType dtype, unsigned repeated);
// dst of row r = sum or largest of row r of a, in the order of run_reduce. reduce_sum or reduce_max of f32, f64 or i32.
Elementwise::TileFunction row_reduction(Op op, DType dtype);
// The sum of a * b, each product rounded, or of -a: for mul and neg of f32; null for others.
Elementwise::TileFunction row_sum_of(Op op, DType dtype);
// Row 0 of dst += row 0 of a, row 1 of a, ..., for f32, f64 or i32. The variants add a * b, or c * (a * b) with one
// value of b per row, each product rounded; f32 only, else null.
Elementwise::TileFunction row_accumulation(DType dtype);
Elementwise::TileFunction row_accumulation_of_products(DType dtype);
Elementwise::TileFunction row_accumulation_of_scaled_products(DType dtype);
// Copies the value of each row of a into all columns, or the columns of a unchanged. By bytes of an element.
Elementwise::TileFunction spread_function(std::int64_t bytes);
Elementwise::TileFunction move_function(std::int64_t bytes);

}  // namespace unroll::cpu
