// SPDX-License-Identifier: Apache-2.0
// Whole loops as one kernel. A workgroup runs all steps for some rows, or for all where rows depend on each other:
// states and what a step computes lie in shared memory, and workgroups never wait for each other. Long loops are cut
// into dispatches that run some steps each (the iterations of an invocation are limited).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/common/hazards.h"
#include "backends/vulkan/kernels/rows.h"
#include "unroll/passes/scan_form.h"

namespace unroll::vulkan {

// The place at which a step reads or writes a value, in elements. The strides belong to the expression or product.
struct LoopPlace {
  enum class Where : std::uint8_t {
    local,    // shared memory, for one step
    before,   // shared memory: a state before this step
    after,    // shared memory: a state after this step
    input,    // of the scan
    output,   // of the scan
    constant  // a number
  };
  Where where = Where::local;
  int index = 0;
  std::int64_t offset = 0;
  std::int64_t step = 0;  // inputs and outputs: from step to step; packed ones: from row to row
  std::int64_t row = 0;   // inputs and outputs: from row to row, or from sum to sum of neighboring rows
  std::int64_t sums = 0;  // rows of each sum
  double number = 0;
  bool is_packed = false;  // it begins at the rows of the step
};

// c [m, n] = a [m, k] b [k, n]. The sum is that of a step's dispatch: in parts of so many terms, in order.
struct LoopProduct {
  std::int64_t m = 0, n = 0, k = 0, part = 0, a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  DType operands = DType::f32, result = DType::f32;
  struct Target {
    std::int64_t row, column;
  };
  std::vector<Target> targets = {};
};

struct LoopItem {
  enum class Kind : std::uint8_t { pointwise, rows, product } kind = Kind::pointwise;
  common::Expression expression = {};  // of pointwise items and rows, for all rows of the loop; a result per target
  LoopProduct product = {};
  std::vector<LoopPlace> inputs = {}, targets = {};
};

// A step as it is computed, in order.
struct LoopStep {
  std::int64_t steps = 0;
  std::int64_t rows = 0, row_unit = 1;  // that workgroups share out, in multiples of the unit; 0: each has all
  bool reverse = false, packed = false;  // packed: a step runs on its first rows
  struct Array {
    std::int64_t row_words = 0, words = 0;  // of a row; of all, where rows are not shared out
    DType dtype = DType::f32;
  };
  std::vector<Array> states = {}, locals = {};
  std::vector<LoopItem> items = {};
  std::vector<bool> kept = {};  // [state] it is an output
};

// The step of a loop of `plan`; none if the kernel cannot run one of its ops, or reach one of its values.
std::optional<LoopStep> loop_step(const Plan& plan, std::int32_t scan, const common::Hazards& body);

// Rows of a workgroup, invocations, and steps of a dispatch of a loop.
struct LoopTiling {
  std::uint32_t rows = 1, local_size = 64;
  std::uint64_t groups = 1, steps = 1;
  std::uint32_t unrolled = 4;  // terms of a sum
};
// By sizes and the kind of device alone (loop_tiling.cc). Nothing: it does not fit into shared memory; or, unless it is
// forced, steps as dispatches of their own are faster.
std::optional<LoopTiling> choose_loop_tiling(const LoopStep& step, const Limits& limits, bool forced);
// Rows and columns of a product that an invocation has at a time: columns lie `across` apart.
struct LoopTile {
  std::uint32_t rows, columns;
  std::int64_t across(std::int64_t n) const { return (n + columns - 1) / columns; }
  std::int64_t tasks(std::uint32_t m, std::int64_t n) const { return across(n) * ((m + rows - 1) / rows); }
};
LoopTile loop_tile(std::uint32_t rows, std::int64_t columns, std::uint32_t local_size);
// Iterations of an invocation in a step.
std::uint64_t loop_items_iterations(const LoopStep& step, const LoopTiling& tiling, const Limits& limits);
RowLayout loop_row_layout(const common::Expression& expression, std::uint32_t local_size, const Limits& limits);

// Operands of the kernel: buffers of the inputs and outputs of the scan that it uses, then that of states between
// dispatches. Offsets are of the value from the beginning of its buffer.
struct LoopOperands {
  std::vector<int> inputs, outputs;  // [number] operand; -1: unused
  int carry = 0, count = 0;          // buffers: operand of the states, number of all
  int live = -1;                     // of a packed loop: rows of each step and of those before it (kernels.h)
  std::vector<std::uint32_t> input_at, output_at;  // [number] elements before it in a buffer that it shares
};
// Parameters: first step, last step + 1.
Words loop_shader(const LoopStep& step, const LoopTiling& tiling, const LoopOperands& operands, const Setting& setting,
                  const Limits& limits);

}  // namespace unroll::vulkan
