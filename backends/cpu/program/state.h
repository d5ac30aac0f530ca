// SPDX-License-Identifier: Apache-2.0
// What the executables of one backend share.
#pragma once

#include <memory>
#include <optional>

#include "backends/cpu/cost/machine_model.h"
#include "backends/cpu/cost/schedule.h"
#include "backends/cpu/gemm/weights.h"
#include "backends/cpu/program/arena.h"
#include "core/parallel/exchange_thread.h"
#include "unroll/parallel/communicator.h"

namespace unroll::cpu {

struct OpenBlas;

struct BackendState {
  std::shared_ptr<SharedArena> arena = std::make_shared<SharedArena>();  // of all that may not run at once
  WeightStore weights = {};
  ScheduleChoices choices = {};
  RetryLimits retry = {};
  std::optional<Schedule> schedule = {};  // of every scan that can have it; none: timings choose
  // For predictions alone: what is chosen must not depend on what else ran while the machine was measured.
  MachineModel machine = usual_machine();
  bool predicts = false;   // the model is of this machine, and reports say what calls should take
  const OpenBlas* blas = nullptr;  // multiplies large products of whole plans; null: nothing
  Trace* trace = nullptr;  // with a lane for each thread
  Communicator* communicator = nullptr;  // null: one rank
  std::unique_ptr<ExchangeThread> exchanges = {};  // of several ranks
};

}  // namespace unroll::cpu
