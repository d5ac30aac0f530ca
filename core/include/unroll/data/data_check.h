// SPDX-License-Identifier: Apache-2.0
// Dataset checks for common problems, before training. Each task has an overload of check_data for its options, which
// determine the splits. `name` is the file name for messages. docs/training.md lists the checks.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace unroll {

struct DataFinding {
  bool error = false;  // true: training refuses the file; false: a warning
  std::string check;   // "empty lines", "lengths", "duplicates", "vocabulary", "labels", "numbers", "format", "file"
  std::string what;    // description with line numbers and shares
};
struct DataCheck {
  std::vector<std::pair<std::string, double>> figures;  // "rows", "longest", "unknown in validation" (a share) ...
  std::vector<DataFinding> findings;
};

}  // namespace unroll
