// SPDX-License-Identifier: Apache-2.0
// Fuses connected elementwise nodes with the same output shape and no other op between them.
#include <algorithm>

#include "core/passes/group/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// The live part, in which every elementwise node has loads of its own: one that several groups share would be written
// to memory in f32.
std::shared_ptr<const Graph> with_own_loads(const Graph& source) {
  const auto loads = rewrite(source, [](const RewriteNode& at) -> std::vector<Value> {
    if (!is_elementwise(at.node.op)) return {};
    std::vector<Value> operands(at.operands.begin(), at.operands.end());
    bool any = false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Node& from = operands[i].node();
      if (!is_load(at.target, from)) continue;
      const auto same = std::find(at.operands.begin(), at.operands.end(), at.operands[i]) - at.operands.begin();
      operands[i] = same < static_cast<std::ptrdiff_t>(i)
                        ? operands[same]
                        : cast(at.target.value(from.inputs[0]), operands[i].dtype());
      any = true;
    }
    return any ? at.target.append(at.node.op, operands, at.node.attributes) : std::vector<Value>{};
  });
  return drop_dead(*loads);
}

// A load is as deep as its only reader, and a value that is only stored (a state before a step) as deep as the deepest
// other reader of it.
void sink_loads(const Graph& graph, const PerNode<bool>& elementwise, PerNode<int>& depth) {
  const auto uses = count_uses(graph);
  const auto nodes = graph.nodes();
  PerNode<bool> is_read(graph);
  for (const Node& node : nodes)
    for (const ValueId& id : node.inputs) is_read[id.node] = true;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_read[i] || nodes[i].op != Op::cast || !is_half(nodes[i].outputs[0].dtype)) continue;
    for (std::size_t other = 0; other < nodes.size(); ++other) {
      const auto& in = nodes[other].inputs;
      const bool reads = std::find(in.begin(), in.end(), nodes[i].inputs[0]) != in.end();
      if (reads && elementwise[other] && nodes[other].outputs[0].shape == nodes[i].outputs[0].shape)
        depth[i] = std::max(depth[i], depth[other]);
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const ValueId& id : nodes[i].inputs) {
      const std::int32_t from = id.node;
      if (elementwise[i] && is_load(graph, nodes[from]) && uses[{from, 0}] == 1) depth[from] = depth[i];
    }
}

// A node that is computed from inputs and scalars alone joins the group that reads it, however late: beta * v of Adam
// would go through memory otherwise. All readers must have one depth.
void sink_producers(const Graph& graph, const PerNode<bool>& elementwise, PerNode<int>& depth) {
  const auto nodes = graph.nodes();
  PerNode<int> readers(graph, -1);  // their depth; k_several: of more than one, or another op reads it
  constexpr int k_several = -2;
  PerNode<bool> from_inputs(graph);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool one = nodes[i].outputs.size() == 1;
    from_inputs[i] = nodes[i].op == Op::input || nodes[i].op == Op::constant;
    if (!elementwise[i] || !one) continue;
    from_inputs[i] = std::all_of(nodes[i].inputs.begin(), nodes[i].inputs.end(), [&](const ValueId& id) {
      return from_inputs[id.node] || graph.type(id).shape.rank() == 0;
    });
  }
  for (const NamedValue& output : graph.outputs()) readers[output.value.node] = k_several;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (elementwise[i] && from_inputs[i] && readers[i] > depth[i]) depth[i] = readers[i];
    for (const ValueId& id : nodes[i].inputs) {
      const std::int32_t from = id.node;
      const bool fuses = elementwise[i] && nodes[i].outputs[0].shape == graph.type(id).shape;
      if (!fuses || (readers[from] >= 0 && readers[from] != depth[i])) readers[from] = k_several;
      else if (readers[from] == -1) readers[from] = depth[i];
    }
  }
}

NodeSets group(const Graph& graph) {
  const auto nodes = graph.nodes();
  PerNode<bool> elementwise;
  for (const Node& node : nodes) elementwise.push_back(is_elementwise(node.op));
  auto depth = group_depths(graph, elementwise);
  sink_loads(graph, elementwise, depth);
  sink_producers(graph, elementwise, depth);
  NodeSets groups(nodes.size());
  std::map<ValueId, int> reader;  // elementwise siblings that read one full-size value share the load
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!elementwise[i]) continue;
    for (const ValueId& id : nodes[i].inputs) {
      const std::int32_t from = id.node;
      const auto joins = [&](int other) {
        return elementwise[other] && depth[other] == depth[i] &&
               nodes[other].outputs[0].shape == nodes[i].outputs[0].shape;
      };
      if (joins(from)) groups.join(static_cast<int>(from), static_cast<int>(i));
      if (elementwise[from] || graph.type(id).shape != nodes[i].outputs[0].shape) continue;
      const auto [at, first] = reader.try_emplace(id, static_cast<int>(i));
      if (!first && joins(at->second)) groups.join(at->second, static_cast<int>(i));
    }
  }
  return groups;
}

// Large groups are cut, so that their values fit in a kernel's tiles: an earlier part never reads a later one, so the
// cut makes no cycle.
Units cut_groups(const Graph& graph, NodeSets groups, std::size_t most) {
  const auto nodes = graph.nodes();
  Units units{{}, PerNode<int>(graph, -1)};
  std::map<int, int> open;  // group -> the unit that takes its next node
  const auto fresh_unit = [&] {
    units.members.emplace_back();
    return static_cast<int>(units.members.size()) - 1;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_elementwise(nodes[i].op)) continue;
    const auto [at, fresh] = open.try_emplace(groups.root(static_cast<int>(i)), -1);
    if (fresh || units.members[at->second].size() >= most) at->second = fresh_unit();
    units.members[at->second].push_back(static_cast<int>(i));
    units.of[i] = at->second;
  }
  return units;
}

void note_group(PassLog* log, const Graph& graph, const std::vector<int>& members, const Boundary& boundary,
                std::size_t most) {
  if (!log) return;
  const std::string limit = "limited to " + std::to_string(most) + " ops, so that the values fit a tile";
  log->add("fused " + std::to_string(members.size()) + " elementwise ops " + graph.type(boundary.results[0]).text() +
               ", " + std::to_string(boundary.operands.size()) + " operands, " +
               std::to_string(boundary.results.size()) + " results",
           members.size() == most ? limit : "", boundary.origin.layer);
}

std::shared_ptr<const Graph> fuse_graph(const Graph& source, std::size_t most, PassLog* log) {
  const auto graph = with_own_loads(source);
  return with_units(*graph, cut_groups(*graph, group(*graph), most),
                    [&](const std::vector<int>& members, const Boundary& boundary, Graph& target, ValueMap& values) {
                      note_group(log, *graph, members, boundary, most);
                      emit_group(Op::fused, *graph, members, boundary, target, values);
                    });
}

}  // namespace

std::shared_ptr<const Graph> fuse(const Graph& graph, int most_ops, PassLog* log) {
  const auto most = static_cast<std::size_t>(std::max(most_ops, 1));
  return with_bodies(graph, [most, log](const Graph& g) { return fuse_graph(g, most, log); }, log);
}

}  // namespace unroll
