// SPDX-License-Identifier: Apache-2.0
// What `unroll doctor` tries instead of reading it off: whether backends compute, and how fast the machine is.
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
// Of the first core, for data; none where the system does not say.
std::vector<Cache> data_caches();

// list_backends(), and with them cpu with OpenBLAS, which is an option of it.
std::vector<BackendStatus> backends_of_machine();

struct SelfTest {
  ReportList backends;  // backend, agrees, of_allowed: a small lstm and its gradient against the reference
  std::string failed;   // the first difference; empty: all agree
};
SelfTest self_test(bool as_json);

// The fastest product of matrices, and how fast half of each cache and memory beyond them are read. Under a second.
ReportList roofline(const std::vector<Cache>& caches, bool as_json);

// What nothing on this backend can be faster than, all its threads at work: flop and bytes from memory, per second.
struct Roofline {
  double flop = 0, bytes = 0;
};
Roofline measure_roofline(Backend& backend);

}  // namespace unroll::cli
