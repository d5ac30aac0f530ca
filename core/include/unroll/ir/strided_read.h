// SPDX-License-Identifier: Apache-2.0
// Movement ops whose result is a strided view of the operand.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "unroll/ir/graph.h"

namespace unroll {

// Element (i, j, ...) of the result is element start + i * strides[0] + j * strides[1] + ... of the operand.
struct StridedRead {
  std::int64_t start = 0;
  Ints strides;
};
// The strides of a dense array in row-major order.
UNROLL_API Ints row_major_strides(const Shape& shape);
// Describes a slice, transpose, broadcast, windows or reshape of an operand x with these strides. Returns nullopt for
// other ops, and for a reshape that is no view of such an operand.
UNROLL_API std::optional<StridedRead> strided_read(const Node& node, const Shape& x,
                                                   std::span<const std::int64_t> strides);

}  // namespace unroll
