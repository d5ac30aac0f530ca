// SPDX-License-Identifier: Apache-2.0
// Fusion groups: connected elementwise nodes of one output shape with no other op between them.
#include <algorithm>
#include <map>
#include <numeric>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

// depth: how many non-elementwise nodes lie on the longest path to a node, counted so that two elementwise nodes of
// equal depth have no other node between them; merging equal depths can therefore never make a cycle.
std::vector<int> depths(const Graph& graph) {
  std::vector<int> depth;
  for (const Node& node : graph.nodes()) {
    int d = 0;
    for (const ValueId& id : node.inputs) {
      const Op from = graph.node(id.node).op;
      const bool step = is_elementwise(node.op) && !is_elementwise(from) && from != Op::input && from != Op::constant;
      d = std::max(d, depth[static_cast<std::size_t>(id.node)] + step);
    }
    depth.push_back(d);
  }
  return depth;
}

struct Groups {
  std::vector<int> parent;  // union-find over nodes
  int root(int i) {
    while (parent[static_cast<std::size_t>(i)] != i) i = parent[static_cast<std::size_t>(i)];
    return i;
  }
  void join(int a, int b) {
    a = root(a), b = root(b);
    parent[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  }
};

Groups group(const Graph& graph) {
  const auto nodes = graph.nodes();
  const auto depth = depths(graph);
  Groups groups{std::vector<int>(nodes.size())};
  std::iota(groups.parent.begin(), groups.parent.end(), 0);
  std::map<ValueId, int> reader;  // elementwise siblings that read one full-size value share the load
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_elementwise(nodes[i].op)) continue;
    for (const ValueId& id : nodes[i].inputs) {
      const auto from = static_cast<std::size_t>(id.node);
      const auto joins = [&](std::size_t other) {
        return is_elementwise(nodes[other].op) && depth[other] == depth[i] && nodes[other].outputs[0].shape == nodes[i].outputs[0].shape;
      };
      if (joins(from)) groups.join(static_cast<int>(from), static_cast<int>(i));
      if (is_elementwise(nodes[from].op) || graph.type(id).shape != nodes[i].outputs[0].shape) continue;
      const auto [at, first] = reader.try_emplace(id, static_cast<int>(i));
      if (!first && joins(static_cast<std::size_t>(at->second))) groups.join(at->second, static_cast<int>(i));
    }
  }
  return groups;
}

// Groups as lists of nodes, ascending. Large ones are cut, so that their values fit in a kernel's tiles: an earlier part
// never reads a later one, so the cut makes no cycle.
constexpr std::size_t k_most_nodes = 48;

struct Units {
  std::vector<std::vector<int>> members;
  std::vector<int> of;  // [node], -1 for nodes that are not elementwise
};
Units cut_groups(const Graph& graph, Groups groups) {
  const auto nodes = graph.nodes();
  Units units{{}, std::vector<int>(nodes.size(), -1)};
  std::map<int, int> open;  // group -> the unit that takes its next node
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_elementwise(nodes[i].op)) continue;
    const auto [at, fresh] = open.try_emplace(groups.root(static_cast<int>(i)), static_cast<int>(units.members.size()));
    if (!fresh && units.members[static_cast<std::size_t>(at->second)].size() == k_most_nodes) at->second = static_cast<int>(units.members.size());
    if (at->second == static_cast<int>(units.members.size())) units.members.emplace_back();
    units.members[static_cast<std::size_t>(at->second)].push_back(static_cast<int>(i));
    units.of[i] = at->second;
  }
  return units;
}

bool is_scalar_constant(const Graph& graph, const ValueId& id) {
  return graph.node(id.node).op == Op::constant && graph.type(id).shape.rank() == 0;
}

// One fused node for `members` (ascending); fills `map` for every value that is used outside.
void emit(const Graph& graph, const std::vector<int>& members, const std::vector<bool>& outside, Graph& target,
          std::map<ValueId, Value>& map) {
  auto body = std::make_shared<Graph>();
  std::map<ValueId, Value> inner;
  std::vector<Value> operands;
  std::vector<ValueId> results;
  std::vector<ValueId> read;
  for (const int m : members)
    for (const ValueId& id : graph.node(m).inputs)
      if (!std::binary_search(members.begin(), members.end(), static_cast<int>(id.node))) read.push_back(id);
  const bool only_scalars = std::all_of(read.begin(), read.end(), [&](const ValueId& id) { return is_scalar_constant(graph, id); });
  for (const ValueId& id : read)
    if (inner.count(id) == 0 && (only_scalars || !is_scalar_constant(graph, id))) {
      inner[id] = body->input("in" + std::to_string(operands.size()), graph.type(id));
      operands.push_back(map.at(id));
    }
  for (const int m : members) {
    const Node& node = graph.node(m);
    std::vector<Value> in;
    for (const ValueId& id : node.inputs) {
      Value& value = inner[id];
      if (!value) value = body->append_one(Op::constant, {}, graph.node(id.node).attributes);
      in.push_back(value);
    }
    const ValueId id{m, 0};
    inner[id] = body->append_one(node.op, in, node.attributes);
    if (outside[static_cast<std::size_t>(m)]) {
      body->output("out" + std::to_string(results.size()), inner[id]);
      results.push_back(id);
    }
  }
  const auto values = target.append(Op::fused, operands, {}, body);
  for (std::size_t i = 0; i < results.size(); ++i) map[results[i]] = values[i];
}

std::shared_ptr<const Graph> fuse_graph(const Graph& source) {
  const auto clean = drop_dead(source);
  const Graph& graph = *clean;
  const auto nodes = graph.nodes();
  const Units units = cut_groups(graph, group(graph));
  std::vector<bool> outside(nodes.size(), false);  // read by another group, another op or a named output
  const auto group_of = [&](std::size_t i) { return units.of[i] >= 0 ? units.of[i] : -1 - static_cast<int>(i); };
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const ValueId& id : nodes[i].inputs)
      if (group_of(static_cast<std::size_t>(id.node)) != group_of(i)) outside[static_cast<std::size_t>(id.node)] = true;
  for (const NamedValue& output : graph.outputs()) outside[static_cast<std::size_t>(output.value.node)] = true;

  // Emit in an order where every operand is ready: demand-driven from the outputs, without recursion.
  auto target = std::make_shared<Graph>();
  std::map<ValueId, Value> map;
  for (const NamedValue& input : graph.inputs()) map[input.value] = target->input(input.name, graph.type(input.value));
  std::vector<bool> done(nodes.size(), false);
  std::vector<int> stack;
  const auto visit = [&](int start) {
    stack.push_back(start);
    while (!stack.empty()) {
      const int top = stack.back();
      const auto i = static_cast<std::size_t>(top);
      if (done[i] || nodes[i].op == Op::input) {
        stack.pop_back();
        continue;
      }
      const std::vector<int> unit = units.of[i] >= 0 ? units.members[static_cast<std::size_t>(units.of[i])] : std::vector<int>{top};
      const std::size_t before = stack.size();
      for (const int m : unit)
        for (const ValueId& id : graph.node(m).inputs)
          if (!done[static_cast<std::size_t>(id.node)] && nodes[static_cast<std::size_t>(id.node)].op != Op::input &&
              !std::binary_search(unit.begin(), unit.end(), static_cast<int>(id.node)))
            stack.push_back(id.node);
      if (stack.size() > before) continue;
      stack.pop_back();
      for (const int m : unit) done[static_cast<std::size_t>(m)] = true;
      if (unit.size() > 1) {
        emit(graph, unit, outside, *target, map);
        continue;
      }
      std::vector<Value> operands;
      for (const ValueId& id : nodes[i].inputs) operands.push_back(map.at(id));
      const auto values = target->append(nodes[i].op, operands, nodes[i].attributes, nodes[i].body);
      for (std::size_t k = 0; k < values.size(); ++k) map[{top, static_cast<std::int32_t>(k)}] = values[k];
    }
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) visit(static_cast<int>(i));
  for (const NamedValue& output : graph.outputs()) target->output(output.name, map.at(output.value));
  return target;
}

}  // namespace

std::shared_ptr<const Graph> fuse(const Graph& graph) { return with_bodies(graph, fuse_graph); }

}  // namespace unroll
