// SPDX-License-Identifier: Apache-2.0
// The trace event format that chrome://tracing and Perfetto open.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/explain/timed_backend.h"
#include "unroll/support/trace.h"

namespace unroll::cli {

// A line of time that the backend's trace does not have.
struct HostLane {
  std::string name;
  std::vector<TimedBackend::Span> spans;
};
// One JSON object: a lane for each thread of the backend and for each of `hosts`; microseconds since the first event.
// otherData.dropped says how many events of the backend's threads were left out.
std::string chrome_trace(const Trace& trace, const std::vector<HostLane>& hosts);

}  // namespace unroll::cli
