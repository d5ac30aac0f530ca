// SPDX-License-Identifier: Apache-2.0
// `unroll compare --with`: the same layers in other libraries, by the scripts that benchmarks use.
#pragma once

#include <vector>

#include "frontends/cli/measure/compare_model.h"
#include "frontends/cli/options/options.h"
#include "unroll/compare.h"

namespace unroll::cli {

// Runs each library of options.with on the task's first batch. Throws Error(unsupported) if its packages are not
// installed, or for layers that it does not have.
std::vector<OutsideResults> run_peers(const CompareModel& model, const TensorMap& parameters,
                                      const TrainerOptions& training, const Options& options);

}  // namespace unroll::cli
