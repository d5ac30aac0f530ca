// SPDX-License-Identifier: Apache-2.0
// Ops of packed sequences. Passes create them; they have no gradient.
#pragma once

#include <cstdint>

#include "unroll/ir/ops.h"

namespace unroll {

// The packed layout of padded sequences [T,B,...]: only rows with t < lengths[b] exist. Rows are ordered by step, and
// within a step by decreasing length (as in torch.nn.utils.rnn.pack_padded_sequence). All i32; -1 marks a missing row.
struct PackedRows {
  Value batch_sizes;  // [T]: rows in each step, non-increasing
  Value order;        // [B]: batch indices by decreasing length, stable
  Value rank;         // [B]: the inverse of order
  Value pack;         // [T*B]: padded position t*B + b of each packed row
  Value unpack;       // [T*B]: packed row of each padded position
  Value rows;         // []: number of packed rows
};
PackedRows pack_lengths(Value lengths, std::int64_t steps);

// Product of the first `rows` (i32 []) rows only. With transposed.a the other rows contribute nothing. Otherwise the
// other rows of the result are not written, and nothing may read them.
Value matmul_rows(Value a, Value b, Value rows, Transposed transposed = {});

}  // namespace unroll
