// SPDX-License-Identifier: Apache-2.0
// What a run says of its estimate when it has ended.
#include <doctest/doctest.h>

#include "frontends/cli/run/progress.h"

using namespace unroll;
using namespace unroll::cli;

namespace {

std::string measured(bool on_device) {
  RunEstimate estimate;
  estimate.bytes = std::size_t{100} << 20;
  estimate.on_device = on_device;
  estimate.process_bytes = std::size_t{40} << 20;
  TrainResult result;
  result.seconds = 60;
  result.estimated_seconds = 50;
  return measured_line(estimate, result, std::size_t{50} << 20);
}

}  // namespace

TEST_CASE("the largest memory of the process is compared with what was estimated for it, not for a device") {
  CHECK(measured(false) == "measured: time 1m00s (+20 %), memory 50.0 MiB (-50 %) against the estimate");
  CHECK(measured(true) == "measured: time 1m00s (+20 %), memory of the process 50.0 MiB (+25 %) against the estimate");
}
