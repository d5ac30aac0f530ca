// SPDX-License-Identifier: Apache-2.0
#include "core/passes/lengths/packed_ops.h"

#include "core/ir/append.h"

namespace unroll {

PackedRows pack_lengths(Value lengths, std::int64_t steps) {
  const auto v = lengths.graph().append(Op::pack_lengths, std::vector{lengths}, {{"steps", steps}});
  return {v[0], v[1], v[2], v[3], v[4], v[5]};
}

Value matmul_rows(Value a, Value b, Value rows, Transposed transposed) {
  return append(Op::matmul, {a, b, rows}, {{"transpose_a", transposed.a}, {"transpose_b", transposed.b}});
}

}  // namespace unroll
