// SPDX-License-Identifier: Apache-2.0
// What a loss is a mean over.
#pragma once

#include "unroll/train/task.h"

namespace unroll {

// Gives task.loss its weight. The loss is taken as a sum of terms. A term x / n, with a scalar n that depends on the
// batch alone, has the weight n: such is a masked mean, or a quotient of two sums. Other terms have the weight
// `otherwise`. In training, terms with other weights than the first quotient become penalties of the scope.
void state_weight(Scope& scope, TaskGraph& task, Value otherwise);

}  // namespace unroll
