// SPDX-License-Identifier: Apache-2.0
// Row groups: a reduction over the last axis (layer norm, softmax) and its elementwise neighbors work row by row. They
// become one node, whose body is the group. [L, W]: leading dimensions, one row.
#include <algorithm>

#include "core/ir/row_ops.h"
#include "core/passes/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace unroll {

namespace {

std::int64_t rows_of(const Graph& graph, const std::vector<int>& members) {
  return leading_axes(graph.node(members[0]).outputs[0].shape).elements();
}

// What only one unit reads, the slice of an input say, joins it wherever it stands: no cycle can come of it. It may be
// a named output too.
void pull_producers(const Graph& graph, const std::vector<bool>& by_rows, Units& units) {
  constexpr int k_nobody = -2, k_several = -1;
  std::vector<int> reader(graph.nodes().size(), k_nobody);  // the unit that reads a node
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const auto same_rows = [&](int unit) {
      const int m = units.members[static_cast<std::size_t>(unit)][0];
      return leading_axes(graph.node(m).outputs[0].shape) == leading_axes(graph.nodes()[i].outputs[0].shape);
    };
    if (units.of[i] < 0 && by_rows[i] && reader[i] >= 0 && same_rows(reader[i])) {
      units.of[i] = reader[i];
      auto& members = units.members[static_cast<std::size_t>(reader[i])];
      members.insert(std::lower_bound(members.begin(), members.end(), static_cast<int>(i)), static_cast<int>(i));
    }
    for (const ValueId& id : graph.nodes()[i].inputs) {
      int& by = reader[static_cast<std::size_t>(id.node)];
      by = by == k_nobody || by == units.of[i] ? units.of[i] : k_several;
    }
  }
}

// A group whose results only one other group reads becomes part of it, though other ops may lie beside the two: with no
// way around, no cycle can come of it. Named outputs stay outputs. From the last group back, so that chains join.
void join_to_readers(const Graph& graph, Units& units) {
  for (std::size_t from = units.members.size(); from-- > 0;) {
    int to = -1;
    bool joins = true;
    for (std::size_t i = 0; joins && i < graph.nodes().size(); ++i)
      for (const ValueId& id : graph.nodes()[i].inputs) {
        const int reader = units.of[i];
        if (units.of[static_cast<std::size_t>(id.node)] != static_cast<int>(from) || reader == static_cast<int>(from))
          continue;
        joins = joins && reader >= 0 && (to < 0 || reader == to);
        to = reader;
      }
    if (!joins || to < 0) continue;
    auto &members = units.members[from], &all = units.members[static_cast<std::size_t>(to)];
    const auto rows = [&](int m) { return leading_axes(graph.node(m).outputs[0].shape); };
    if (rows(members[0]) != rows(all[0])) continue;
    for (const int m : members) units.of[static_cast<std::size_t>(m)] = to;
    all.insert(all.end(), members.begin(), members.end());
    std::sort(all.begin(), all.end());
    members.clear();
  }
}

// Why a group of ops with a reduction stays apart, op by op; empty when it becomes a row group.
std::string refusal(const Graph& graph, const std::vector<int>& members, const Tuning& tuning) {
  const std::int64_t rows = rows_of(graph, members);
  if (members.size() < 2) return "no elementwise op can join the reduction";
  if (rows < tuning.fewest_rows) return std::to_string(rows) + " rows are too few for several threads";
  return "";
}

Units row_units(const Graph& graph, const Tuning& tuning, PassLog* log) {
  const auto nodes = graph.nodes();
  std::vector<bool> by_rows;
  for (const Node& node : nodes) by_rows.push_back(is_row_op(graph, node));
  const auto depth = group_depths(graph, by_rows);
  NodeSets sets(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const ValueId& id : nodes[i].inputs) {
      const auto from = static_cast<std::size_t>(id.node);
      if (by_rows[i] && by_rows[from] && depth[i] == depth[from])
        sets.join(static_cast<int>(from), static_cast<int>(i));
    }
  std::map<int, std::vector<int>> groups;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (by_rows[i]) groups[sets.root(static_cast<int>(i))].push_back(static_cast<int>(i));
  Units units{{}, std::vector<int>(nodes.size(), -1)};
  for (auto& [root, members] : groups) {
    const bool reduces = std::any_of(members.begin(), members.end(), [&](int m) {
      return op_info(graph.node(m).op).kind == OpKind::reduce;
    });
    if (!reduces) continue;
    if (const std::string why = refusal(graph, members, tuning); !why.empty()) {
      if (log) log->add("left " + node_text(graph.node(members.back())) + " and its operands ungrouped", why);
      continue;
    }
    for (const int m : members) units.of[static_cast<std::size_t>(m)] = static_cast<int>(units.members.size());
    units.members.push_back(std::move(members));
  }
  pull_producers(graph, by_rows, units);
  join_to_readers(graph, units);
  return units;
}

void note_group(PassLog* log, const Graph& graph, const std::vector<int>& members, const Boundary& boundary) {
  if (!log) return;
  log->add("grouped " + std::to_string(members.size()) + " row ops of " + std::to_string(rows_of(graph, members)) +
               " rows, " + std::to_string(boundary.operands.size()) + " operands, " +
               std::to_string(boundary.results.size()) + " results",
           "each row depends on its own row alone: its values stay in a cache or in shared memory");
}

std::shared_ptr<const Graph> row_groups_of(const Graph& source, const Tuning& tuning, PassLog* log) {
  const auto graph = drop_dead(source);
  return with_units(*graph, row_units(*graph, tuning, log),
                    [&](const std::vector<int>& members, const Boundary& boundary, Graph& target, ValueMap& values) {
                      note_group(log, *graph, members, boundary);
                      emit_group(Op::row_group, *graph, members, boundary, target, values);
                    });
}

}  // namespace

std::shared_ptr<const Graph> row_groups(const Graph& graph, const Tuning& tuning, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) { return row_groups_of(g, tuning, log); }, log);
}

}  // namespace unroll
