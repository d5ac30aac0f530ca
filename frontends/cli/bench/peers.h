// SPDX-License-Identifier: Apache-2.0
// Runs the same layers in other libraries (`unroll compare --with`), with the benchmark scripts.
#pragma once

#include <vector>

#include "frontends/cli/bench/compare_model.h"
#include "unroll/train/compare.h"

namespace unroll::cli {

struct PeerArguments : ComparedArguments {
  std::string python = "python3";
};
// Runs each library of options.with on the task's first batch. Throws Error(unsupported) if its packages are not
// installed, or for layers that it lacks.
std::vector<OutsideResults> run_peers(const CompareModel& model, const TensorMap& parameters,
                                      const TrainerOptions& training, const PeerArguments& options);

}  // namespace unroll::cli
