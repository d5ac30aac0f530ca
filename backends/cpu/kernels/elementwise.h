// SPDX-License-Identifier: Apache-2.0
// Vector loops for elementwise programs: one function per op and dtype.
#pragma once

#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

// Returns the function for dst = op(a, b, c), elementwise on a tile; extra operands are ignored. dst may share memory
// with an operand of the same element size. Null if there is no such op for the dtype. `to` matters for cast only.
Elementwise::TileFunction tile_function(Op op, DType dtype, DType to);
// Returns the function for dst = outer(inner(a, b), c), or outer(c, inner(a, b)), for f32 add, sub and mul; else null.
Elementwise::TileFunction pair_function(Op outer, Op inner, bool inner_first, DType dtype);

}  // namespace unroll::cpu
