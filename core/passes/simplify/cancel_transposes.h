// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unroll/ir/ops.h"

namespace unroll {

// The transpose of x, where x is elementwise work, slices, pads and concatenations of values that the opposite
// transpose has made: the same work on the operands of those. An empty Value if another value takes part.
Value cancel_transposes(Value x, const Ints& permutation);

}  // namespace unroll
