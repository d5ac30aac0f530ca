// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/passes/rewrite.h"

namespace unroll {

// The constant that a slice, concat, reshape or transpose of constants is; an empty Value for any other node.
Value fold_constant_move(const RewriteNode& at);

}  // namespace unroll
