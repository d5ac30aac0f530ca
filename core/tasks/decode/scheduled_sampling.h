// SPDX-License-Identifier: Apache-2.0
// Parallel scheduled sampling (Duckworth et al. 2019): a first pass over the target, then a second pass in which a
// share of the inputs are predictions of the first.
#pragma once

#include "unroll/nn/scope.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

// Replaces a share of the tokens in `before` [T,B] by `own` [T,B], the model's predictions of the previous step. The
// first token stays.
Value sampled_inputs(Scope& scope, const SamplingOptions& options, Value before, Value own);

}  // namespace unroll
