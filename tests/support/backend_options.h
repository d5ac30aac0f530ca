// SPDX-License-Identifier: Apache-2.0
// Options of one backend, as tests try them out.
#pragma once

#include <string>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll::testing {

// The schedules of a backend; none where it does not let one choose.
inline std::vector<std::string> schedules_of(const std::string& backend) {
  for (const BackendOption& option : backend_options(backend))
    if (option.name == "schedule") return option.values;
  return {};
}

// So many threads, and a schedule unless it is empty.
inline BackendOptions scheduled(int threads, const std::string& schedule, Trace* trace = nullptr) {
  BackendOptions options{.threads = threads, .trace = trace};
  if (!schedule.empty()) options.specific["schedule"] = schedule;
  return options;
}

}  // namespace unroll::testing
