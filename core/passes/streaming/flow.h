// SPDX-License-Identifier: Apache-2.0
// The dependence of a graph's values on time, found from two graphs for different numbers of steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/ir/per_node.h"

namespace unroll::streaming {

inline constexpr std::string_view k_who = "block_stream";

using Length = std::function<std::int64_t(std::int64_t)>;  // positions for T steps

struct Flow {
  enum class Kind : std::uint8_t {
    fixed,     // does not depend on the input or on T
    repeated,  // does not depend on the input, and all positions of its axis of time are equal
    sequence,  // has an axis of time whose positions come one after another
    whole,     // needs the whole sequence, see `why`; no stream has it
  };
  Kind kind = Kind::fixed;
  int axis = -1;           // of time
  // Positions of this many rows, one row after another, share the axis: [B,T,C] as [B*T,C].
  std::int64_t outer = 1;
  // `up` positions for `down` steps of the input, in lowest terms.
  std::int64_t up = 1, down = 1;
  // After block k, positions below (k + 1) R - delay exist. With a negative delay, the first -delay
  // positions exist before the first block: they come from padding and constants.
  std::int64_t delay = 0;
  Length length = {};
  std::string why = {};

  bool is_sequence() const { return kind == Kind::sequence; }
};
Flow whole(std::string why);
// The flow of a node's operand: a repeated one counts as a sequence where none of them is one.
std::vector<Flow> moving(std::vector<Flow> operands);

struct NodeFlow {
  std::int64_t align = 0;  // the operands that are sequences are delayed to this
  std::vector<Flow> outputs;
};

// Two graphs with the same nodes, in primitive ops, for T = k_steps and T = 2 k_steps.
struct Lengths {
  std::shared_ptr<const Graph> one, two;
};
inline constexpr std::int64_t k_steps = 80640;  // a multiple of all numbers to 10, and of 128
Lengths lengths_of(const std::function<std::shared_ptr<const Graph>(std::int64_t)>& graph_of);

PerNode<NodeFlow> find_flows(const Lengths& graphs);

// One node with the flows of its operands.
struct FlowAt {
  const Graph &one, &two;
  const Node &node, &other;
  std::vector<Flow> operands;

  const Shape& shape(std::size_t operand) const { return one.type(node.inputs[operand]).shape; }
  const Flow& first_sequence() const;
  // The node with its shape in letters: "matmul f32[T,64] of layer 'l0'".
  std::string text() const;
  // All results have the rate of the operands, their largest delay, and their time at `axis`.
  NodeFlow aligned(int axis) const;
  NodeFlow refused(const std::string& why) const;
};
// The flow of a node with at least one operand that is a sequence and none that is `whole`.
NodeFlow flow_of_sequences(const FlowAt& at);
// The axis whose size differs between the two graphs; -1: none, -2: several.
int time_axis(const Shape& one, const Shape& two);

}  // namespace unroll::streaming
