// SPDX-License-Identifier: Apache-2.0
// Measurements of `unroll doctor`: backends compute correctly, and the speed of the machine.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "frontends/cli/terminal/report.h"
#include "unroll/passes/backend.h"

namespace unroll::cli {

struct Cache {
  std::string name;  // "L1", "L2"
  std::size_t bytes;
};
// Returns the data caches of the first core; none if the system does not report them.
std::vector<Cache> data_caches();

// Returns list_backends() plus cpu with OpenBLAS, which is an option of cpu.
std::vector<BackendStatus> backends_of_machine();

struct SelfTest {
  ReportList backends;  // backend, agrees, of_allowed: a small lstm and its gradient against the reference
  std::string failed;   // the first difference; empty: all agree
};
SelfTest self_test(bool as_json);

// Measures the fastest matmul, and the read speed of half of each cache and of memory. Takes under a second.
ReportList roofline(const std::vector<Cache>& caches, bool as_json);

// Upper limits of this backend with all its threads: flop per second, and bytes from memory per second.
struct Roofline {
  double flop = 0, bytes = 0;
};
Roofline measure_roofline(Backend& backend);

}  // namespace unroll::cli
