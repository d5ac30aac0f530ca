// SPDX-License-Identifier: Apache-2.0
// State that the executables of one backend share.
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
  std::shared_ptr<SharedArena> arena = std::make_shared<SharedArena>();  // for all executables that take turns
  WeightStore weights = {};
  ScheduleChoices choices = {};
  RetryLimits retry = {};
  std::optional<Schedule> schedule = {};  // of every scan that supports it; nullopt: timings choose
  // For predictions only: choices must not depend on other programs that ran while the machine was measured.
  MachineModel machine = usual_machine();
  bool predicts = false;   // the model describes this machine, and reports include predicted times
  const OpenBlas* blas = nullptr;  // computes large matmuls of whole plans; null: not used
  Trace* trace = nullptr;  // with a lane per thread
  Communicator* communicator = nullptr;  // null: one rank
  std::unique_ptr<ExchangeThread> exchanges = {};  // for several ranks
};

}  // namespace unroll::cpu
