// SPDX-License-Identifier: Apache-2.0
// The body of a packed loop: a step runs on its first rows, whose number only the device knows.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/device/lowering.h"

namespace unroll::device {

struct PackedBody {
  int n_states = 0, n_inputs = 0;
  std::int64_t batch = 0;
  bool reverse = false;
  std::vector<bool> kept = {};              // [state] the loop keeps it
  std::vector<bool> inputs = {}, outputs = {};  // that lie packed
  std::vector<bool> has_rows = {};          // [node]

  // True if the node computes a value of this shape row by row.
  bool goes_by_rows(std::int32_t node, const Shape& shape) const {
    return has_rows[node] && shape.rank() > 0 && shape[0] == batch;
  }
  // An operand of a step. `moves`: it begins at the rows of the step; `guards`: rows beyond them must not change.
  struct Way {
    bool moves = false, guards = false;
    std::int64_t row_elements = 0;  // from row to row
  };
  Way way_of(const Operand& operand, const Graph& body) const;
  // The pair of the step, an input behind those of the body: its rows, and those of all earlier steps.
  Operand live_rows() const;
};
PackedBody packed_body(const Plan& outer, std::int32_t scan);
std::int64_t packed_batch(const Plan& outer, std::int32_t scan);
// Copies of a state of a loop, from the `copy`th on.
Operand state_copy(const Plan& outer, std::int32_t scan, std::size_t state, int copy);

}  // namespace unroll::device
