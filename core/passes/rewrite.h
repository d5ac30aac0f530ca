// SPDX-License-Identifier: Apache-2.0
// Passes never modify a graph: they copy its live nodes, one by one, into a new graph.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/passes/log.h"
#include "unroll/ir/graph.h"
#include "unroll/ir/per_node.h"

namespace unroll {

// Sees one live node whose operands are already values of `target`. Returns what stands for the node's outputs (an
// empty Value for one that nobody uses), or an empty vector to have the node copied.
struct RewriteNode {
  const Graph& source;
  std::int32_t id;
  const Node& node;
  std::span<const Value> operands;
  Graph& target;
};
using RewriteRule = std::function<std::vector<Value>(const RewriteNode&)>;

// Inputs come first in the new graph; inputs and outputs keep their names and order; nodes that no output needs are
// dropped. `more` are values of the source that become further outputs.
std::shared_ptr<Graph> rewrite(const Graph& source, const RewriteRule& rule, std::span<const ValueId> more = {});

// The live part alone.
std::shared_ptr<Graph> drop_dead(const Graph& source);

// The copy of a node with another body or other attributes.
std::vector<Value> copy_node(const RewriteNode& at, std::shared_ptr<const Graph> body);

// Applies `pass` to the graph inside every scan body (innermost first), then to the graph itself.
using GraphPass = std::function<std::shared_ptr<const Graph>(const Graph&)>;
// Inside a body the log, where there is one, is in its loop.
std::shared_ptr<const Graph> with_bodies(const Graph& source, const GraphPass& pass, PassLog* log = nullptr);

// Counts the operands and outputs that read each value.
PerValue<int> count_uses(const Graph& graph);

// The one element of a constant, or of a broadcast of one, as a double; false when it is not of one value.
bool is_splat(const Value& value, double& element);
bool is_splat_of(const Value& value, double wanted);

}  // namespace unroll
