// SPDX-License-Identifier: Apache-2.0
// Loops over time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// A loop over time. Inputs of the node, in order: states, sequences, constants, [lengths], [reset].
//   states     any type; each step maps them to their next values
//   sequences  [T, ...]; the body sees slice t
//   constants  the same value in every step
//   lengths    i32 [B]: at t >= lengths[b], row b (axis 0) of every state keeps its value, and row b of every per-step
//              output is zero. Axis 0 of every state and output must then be B
//   reset      b8 [T, B]: where true, row b of every state is set to zero before the step
//   packed     a flag set by passes. batch_sizes i32 [T] (op pack_lengths) follows the constants. Sequences and
//              outputs are [T*B,...] and hold existing rows only. Step t uses the first batch_sizes[t] rows of the
//              states, which are sorted by rank. Output rows beyond the last are not written; nothing may read them.
//              A sequence that is the same for all rows stays [T,...]
//   reverse    t runs from T-1 to 0; the output of step t stays at position t
// Body inputs: states, sequence slices, constants. Body outputs: next states, then per-step outputs.
// Node outputs: final states, then outputs stacked to [T, ...]. With T = 0 the final states are the initial ones.
struct ScanOptions {
  bool reverse = false;
  Value lengths;
  Value reset;
  std::int64_t steps = -1;  // required when there are no sequences
  // With lengths, the step reads zeros of x [T,B,...] after the end of a row (without_padding). Set this if x is finite
  // there, to skip the selection.
  bool finite_padding = false;
};
struct ScanResult {
  std::vector<Value> states;
  std::vector<Value> outputs;
};
struct StepValues {  // values of the body graph
  std::vector<Value> states;
  std::vector<Value> sequences;
  std::vector<Value> constants;
};
struct StepResult {
  std::vector<Value> states;
  std::vector<Value> outputs;
};
using StepFunction = std::function<StepResult(const StepValues&)>;
// Returns x [T,B,...] with zeros after the end of each row; lengths i32 [B]. Gradients there are zero times x, and zero
// times NaN is NaN. Packed loops read no such rows and drop the selection. Returns x without lengths, and for integers.
UNROLL_API Value without_padding(Value x, Value lengths);
UNROLL_API ScanResult scan(ValueList states, ValueList sequences, ValueList constants, const StepFunction& step,
                           const ScanOptions& options = {});
// The same with an existing body graph.
UNROLL_API std::vector<Value> scan_body(ValueList inputs, Attributes attributes, std::shared_ptr<const Graph> body);

// The decoded attributes of a scan node.
struct ScanLayout {
  std::int64_t steps;
  int n_states, n_sequences, n_constants;
  bool reverse, has_lengths, has_reset;
  // Set by passes. Sequences and outputs are [T*B,...]; the rows of step t start at the sum of the sizes before t.
  bool packed;
  int n_inputs() const { return n_states + n_sequences + n_constants + has_lengths + has_reset + packed; }
};
UNROLL_API ScanLayout scan_layout(const Node& node);

}  // namespace unroll
