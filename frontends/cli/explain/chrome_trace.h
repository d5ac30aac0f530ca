// SPDX-License-Identifier: Apache-2.0
// Writes the trace event format of chrome://tracing and Perfetto.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/explain/profiling_backend.h"
#include "unroll/support/trace.h"

namespace unroll::cli {

// A lane that the backend's trace lacks.
struct HostLane {
  std::string name;
  std::vector<ProfilingBackend::Span> spans;
};
// Returns one JSON object: a lane for each thread of the backend and each of `hosts`, in microseconds since the first
// event. otherData.dropped is the number of omitted events of the backend's threads.
std::string chrome_trace(const Trace& trace, const std::vector<HostLane>& hosts);

}  // namespace unroll::cli
