// SPDX-License-Identifier: Apache-2.0
// Groups of adjacent nodes that become one node: shared by fuse.cc and fused_reductions.cc.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/ir/per_node.h"

namespace unroll {

// Disjoint sets of nodes.
class NodeSets {
 public:
  explicit NodeSets(std::size_t n_nodes);
  int root(int node);
  void join(int a, int b);

 private:
  std::vector<int> parent_;
};

// Per node: how many nodes that cannot join a group lie on the longest path to it, counted so that two nodes that can
// and have equal depth have no other node between them. Joining equal depths can therefore never make a cycle.
PerNode<int> group_depths(const Graph& graph, const PerNode<bool>& can_join);

// Sets of nodes that become one node each.
struct Units {
  std::vector<std::vector<int>> members;  // ascending
  PerNode<int> of;                  // index into members, -1 for a node by itself
};

// The values that a unit reads, and those of its values that others read.
struct Boundary {
  std::vector<ValueId> operands;  // each once, in order of first use
  std::vector<ValueId> results;   // values that others or named outputs read
  Origin origin;                  // the layer that the members with one have in common, and the earliest phase
};
using ValueMap = std::map<ValueId, Value>;  // values of the source in the target
// Appends what stands for a unit to the target; sets `values` for each result.
using EmitUnit =
    std::function<void(const std::vector<int>& members, const Boundary& boundary, Graph& target, ValueMap& values)>;

// A copy of the graph in which every unit of more than one node is what `emit` makes of it.
std::shared_ptr<const Graph> with_units(const Graph& graph, const Units& units, const EmitUnit& emit);

// A cast from a 16-bit dtype: a group reads such values where they lie.
bool is_load(const Graph& graph, const Node& node);

// One node for a unit, with the unit as its body. Scalar constants become constants of the body; casts that load the
// same value are one.
void emit_group(Op op, const Graph& graph, const std::vector<int>& members, const Boundary& boundary, Graph& target,
                ValueMap& values);

bool is_scalar_constant(const Graph& graph, const ValueId& id);

// A reduction over the last axis of so many rows at least: of enough for a fused reduction (fused_reductions.cc).
bool is_row_reduction(const Graph& graph, const Node& node, std::int64_t fewest_rows);
// The number of rows [L, W] that each element of a sum over the last axes of L adds up; 0 for other nodes.
std::int64_t summed_rows(const Graph& graph, const Node& node);

}  // namespace unroll
