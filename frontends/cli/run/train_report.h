// SPDX-License-Identifier: Apache-2.0
// The report of a finished training run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/terminal/report.h"
#include "unroll/parallel/communicator.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

struct FinishedRun {
  std::string folder, config;  // config: the file; empty if it is the run's own
  TrainResult result;
  RunEstimate estimate;
  std::size_t peak = 0;  // bytes
  std::optional<std::int64_t> best_update;
  std::vector<Advice> advice;
  bool diverged = false;
  const Communicator* ranks = nullptr;  // null: one process
};

Report report_for_programs(const FinishedRun& run);
// Leaves out advice and estimates, which were printed during the run.
Report report_for_people(const FinishedRun& run);

}  // namespace unroll::cli
