// SPDX-License-Identifier: Apache-2.0
// Fuses connected elementwise nodes with the same output shape and no other op between them.
#include <algorithm>

#include "core/passes/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

NodeSets group(const Graph& graph) {
  const auto nodes = graph.nodes();
  std::vector<bool> elementwise;
  for (const Node& node : nodes) elementwise.push_back(is_elementwise(node.op));
  const auto depth = group_depths(graph, elementwise);
  NodeSets groups(nodes.size());
  std::map<ValueId, int> reader;  // elementwise siblings that read one full-size value share the load
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!elementwise[i]) continue;
    for (const ValueId& id : nodes[i].inputs) {
      const auto from = static_cast<std::size_t>(id.node);
      const auto joins = [&](std::size_t other) {
        return elementwise[other] && depth[other] == depth[i] &&
               nodes[other].outputs[0].shape == nodes[i].outputs[0].shape;
      };
      if (joins(from)) groups.join(static_cast<int>(from), static_cast<int>(i));
      if (elementwise[from] || graph.type(id).shape != nodes[i].outputs[0].shape) continue;
      const auto [at, first] = reader.try_emplace(id, static_cast<int>(i));
      if (!first && joins(static_cast<std::size_t>(at->second))) groups.join(at->second, static_cast<int>(i));
    }
  }
  return groups;
}

// Large groups are cut, so that their values fit in a kernel's tiles: an earlier part never reads a later one, so the
// cut makes no cycle.
Units cut_groups(const Graph& graph, NodeSets groups, std::size_t most) {
  const auto nodes = graph.nodes();
  Units units{{}, std::vector<int>(nodes.size(), -1)};
  std::map<int, int> open;  // group -> the unit that takes its next node
  const auto fresh_unit = [&] {
    units.members.emplace_back();
    return static_cast<int>(units.members.size()) - 1;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_elementwise(nodes[i].op)) continue;
    const auto [at, fresh] = open.try_emplace(groups.root(static_cast<int>(i)), -1);
    if (fresh || units.members[static_cast<std::size_t>(at->second)].size() >= most) at->second = fresh_unit();
    units.members[static_cast<std::size_t>(at->second)].push_back(static_cast<int>(i));
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
           members.size() == most ? limit : "");
}

std::shared_ptr<const Graph> fuse_graph(const Graph& source, std::size_t most, PassLog* log) {
  const auto graph = drop_dead(source);
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
