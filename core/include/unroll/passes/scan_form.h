// SPDX-License-Identifier: Apache-2.0
// What one step of a planned loop consists of, for backends whose kernels run a whole loop: products by weights, what
// is computed from them at once, and where threads that own units have to wait for each other.
//
// Units are the elements of the last axis. A kernel gives each worker some units of every value; a pointwise node then
// reads units of its own only. A product, a reduction over the last axis or a concatenation reads units of all workers:
// an exchange. It needs a barrier between the write and the read, in one step or from one step to the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/ir/ops.h"
#include "unroll/passes/backend.h"

namespace unroll {

struct UNROLL_API ScanForm {
  // a [M, K] by a weight that is the same in all steps, to [M, N].
  struct Product {
    std::int32_t node = -1;   // of the body
    int weight = 0;           // constant of the scan
    bool transposed = false;  // the weight is [N, K], not [K, N]
    std::int64_t m = 0, n = 0, k = 0;
    // N = gates * units, gate by gate (ProductGates in product_groups.h).
    std::int64_t gates = 1, units = 0;
  };
  // Nodes between two exchanges, in order of the plan.
  struct Stage {
    std::vector<std::int32_t> nodes;  // of the body; inputs, constants and views are left out
    bool exchanges = false;           // a barrier follows: a later stage, or the next step, reads units of all workers
  };
  // Where a state lives: kept outputs of the scan with its value after or before each step. -1: in memory of its own.
  // With lengths this is so in the steps that a row runs; behind its end the outputs are zero and the state stays.
  struct State {
    int after = -1, before = -1;
  };

  std::string reason = {};  // why no kernel can run the whole loop; there are then no stages, and `rows` is 0
  ScanLayout layout = {};
  std::vector<Product> products = {};
  std::vector<State> states = {};
  std::vector<Stage> stages = {};
  // The input of the scan with lengths i32[rows]: row b runs the steps t < lengths[b] only, which are all of them where
  // it is T or more. -1: every row runs all steps, or the scan is packed.
  int lengths = -1;
  // Of axis 0 of states, sequences and outputs, when no row reads another one; otherwise 0. Fused reductions may add up
  // `row_unit` rows at a time: a worker then takes them together, and stacks of sums have rows / row_unit rows.
  std::int64_t rows = 0, row_unit = 1;

  explicit operator bool() const { return reason.empty(); }
  int exchanges() const;  // barriers of one step
  const Product* product(std::int32_t node) const;  // null: the node is none
};

// `scan`: a node of the plan with op scan. Loops inside the step are a reason for no form; a packed scan has one, for
// the first batch_sizes[t] rows of each step.
UNROLL_API ScanForm scan_form(const Plan& plan, std::int32_t scan);

// A line for each product and each stage: "product 1: f32[32,256] by a weight, 4 gates of 256 units, recurrent".
UNROLL_API std::vector<std::string> describe(const ScanForm& form, const Plan& body);

}  // namespace unroll
