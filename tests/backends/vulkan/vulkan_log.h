// SPDX-License-Identifier: Apache-2.0
// Recordings of plans as lists of commands. No shader is compiled and nothing is run, so that thousands take seconds.
#pragma once

#include <memory>

#include "backends/vulkan/program/record.h"
#include "unroll/passes/backend.h"

namespace unroll::testing {

struct Logged {
  std::shared_ptr<const Plan> plan;
  vulkan::Program program;  // its nodes, which the commands refer to
  vulkan::CommandLog commands;
};

inline constexpr int k_uploads = 0;  // unit of the first command: what is written before a run

class Logger {
 public:
  // Throws Error(device) where there is no Vulkan device. `as_gpu`: without the loop limit of drivers on the CPU.
  explicit Logger(bool as_gpu = false);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;
  // One run of the graph with buffers of its own; outputs with a donor are in its buffer.
  Logged log(const Graph& graph);

 private:
  std::unique_ptr<Backend> backend_;  // plans
  std::unique_ptr<vulkan::Context> context_;
};

}  // namespace unroll::testing
