// SPDX-License-Identifier: Apache-2.0
// Parallel scheduled sampling (Duckworth et al. 2019): a first pass over the target, then a second one that reads what
// the first one predicted for a share of the tokens.
#pragma once

#include "unroll/nn/scope.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

// `before` [T,B] with `own` [T,B], what the model predicts at each step, one step later in place of a share of its
// tokens. The first token stays.
Value sampled_inputs(Scope& scope, const SamplingOptions& options, Value before, Value own);

}  // namespace unroll
