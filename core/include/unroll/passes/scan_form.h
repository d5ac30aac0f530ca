// SPDX-License-Identifier: Apache-2.0
// The structure of one step of a planned loop, for backends whose kernels run a whole loop: matmuls with weights, the
// pointwise nodes between them, and the barriers between workers.
//
// Units are the elements of the last axis. A kernel assigns each worker some units of every value, so a pointwise node
// reads only its worker's units. A matmul, a reduction over the last axis or a concatenation reads the units of all
// workers: an exchange. An exchange needs a barrier between the write and the read, within a step or between two steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/ir/ops.h"
#include "unroll/passes/backend.h"

namespace unroll {

struct UNROLL_API ScanForm {
  // A matmul of a [M, K] with a weight that is constant over the steps, to [M, N].
  struct Product {
    std::int32_t node = -1;   // of the body
    int weight = 0;           // constant of the scan
    bool transposed = false;  // true: the weight is [N, K], not [K, N]
    std::int64_t m = 0, n = 0, k = 0;
    // N = gates * units, gate by gate (ProductGates in product_groups.h).
    std::int64_t gates = 1, units = 0;
  };
  // Nodes between two exchanges, in plan order.
  struct Stage {
    std::vector<std::int32_t> nodes;  // of the body; inputs, constants and views are left out
    bool exchanges = false;           // a barrier follows: a later stage, or the next step, reads units of all workers
  };
  // The location of a state: kept outputs of the scan that hold its value after or before each step. -1: separate
  // memory. With lengths this applies to the steps that a row runs; then the outputs are zero and the state stays.
  struct State {
    int after = -1, before = -1;
  };

  std::string reason = {};  // the reason why no kernel can run the whole loop; `stages` is then empty and `rows` is 0
  ScanLayout layout = {};
  std::vector<Product> products = {};
  std::vector<State> states = {};
  std::vector<Stage> stages = {};
  // Index of the scan input with lengths i32[rows]: row b runs the steps t < lengths[b], at most T. -1: every row runs
  // all steps, or the scan is packed.
  int lengths = -1;
  // Size of axis 0 of states, sequences and outputs if rows are independent, otherwise 0. Fused reductions may sum
  // `row_unit` rows at a time. One worker then processes them together, and stacks of sums have rows / row_unit rows.
  std::int64_t rows = 0, row_unit = 1;

  explicit operator bool() const { return reason.empty(); }
  int exchanges() const;  // barriers of one step
  const Product* product(std::int32_t node) const;  // null: the node is no matmul with a weight
};

// Returns the form of `scan`, a scan node of the plan. Loops inside the step are a reason for no form. The form of a
// packed scan covers the first batch_sizes[t] rows of each step.
UNROLL_API ScanForm scan_form(const Plan& plan, std::int32_t scan);

// Returns a line per matmul and per stage: "product 1: f32[32,256] by a weight, 4 gates of 256 units, recurrent".
UNROLL_API std::vector<std::string> describe(const ScanForm& form, const Plan& body);

}  // namespace unroll
