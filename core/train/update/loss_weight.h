// SPDX-License-Identifier: Apache-2.0
// Finds the weight of a loss: the number of elements that it averages over.
#pragma once

#include "unroll/train/task.h"

namespace unroll {

// Gives task.loss its weight. The loss is taken as a sum of terms. A term x / n, with a scalar n that depends on the
// batch alone, has the weight n: such is a masked mean, or a quotient of two sums. With `are_means`, a term that is a
// constant times the sum of all elements of a value of the batch is taken as a mean over these elements. Other terms
// have the weight `otherwise`. In training, terms with other weights than the first quotient, or without one the first
// mean, become penalties of the scope.
UNROLL_API void state_weight(Scope& scope, TaskGraph& task, Value otherwise, bool are_means = false);

}  // namespace unroll
