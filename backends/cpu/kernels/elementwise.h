// SPDX-License-Identifier: Apache-2.0
// Vector loops for elementwise programs: one function per op and dtype.
#pragma once

#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

// dst = op(a, b, c) element by element of a tile; operands an op does not take are ignored. dst may be the same memory
// as an operand of the same element size. Null when there is no such op on dtype. `to` matters for cast only.
Elementwise::TileFunction tile_function(Op op, DType dtype, DType to);
// dst = outer(inner(a, b), c), or outer(c, inner(a, b)), for additions, subtractions and products of f32; null for
// others.
Elementwise::TileFunction pair_function(Op outer, Op inner, bool inner_first, DType dtype);

}  // namespace unroll::cpu
