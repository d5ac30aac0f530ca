// SPDX-License-Identifier: Apache-2.0
// Fused reductions: a reduction over the last axis (layer norm, softmax) and its elementwise neighbors work row by row.
// They become one node, whose body is the group. So do the elementwise ops before a large sum over rows: a group adds
// up rows (sum_rows.cc) that would go through memory. [L, W]: leading dimensions, one row.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/ir/ops/row_ops.h"
#include "core/passes/group/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr std::size_t k_small_bytes = 4096;  // of a value that one thread computes sooner than several share it

std::int64_t count_rows(const Graph& graph, const std::vector<int>& members) {
  return leading_axes(graph.node(members[0]).outputs[0].shape).elements();
}

// A node that only one unit reads, such as the slice of an input, joins that unit wherever it stands: this makes no
// cycle. The node may be a named output too.
void pull_producers(const Graph& graph, const PerNode<bool>& by_rows, Units& units) {
  constexpr int k_nobody = -2, k_several = -1;
  PerNode<int> reader(graph, k_nobody);  // the unit that reads a node
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const auto same_rows = [&](int unit) {
      const int m = units.members[unit][0];
      return leading_axes(graph.node(m).outputs[0].shape) == leading_axes(graph.nodes()[i].outputs[0].shape);
    };
    if (units.of[i] < 0 && by_rows[i] && reader[i] >= 0 && same_rows(reader[i])) {
      units.of[i] = reader[i];
      auto& members = units.members[reader[i]];
      members.insert(std::lower_bound(members.begin(), members.end(), static_cast<int>(i)), static_cast<int>(i));
    }
    for (const ValueId& id : graph.nodes()[i].inputs) {
      int& by = reader[id.node];
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
        if (units.of[id.node] != static_cast<int>(from) || reader == static_cast<int>(from))
          continue;
        joins = joins && reader >= 0 && (to < 0 || reader == to);
        to = reader;
      }
    if (!joins || to < 0) continue;
    auto &members = units.members[from], &all = units.members[to];
    const auto rows = [&](int m) { return leading_axes(graph.node(m).outputs[0].shape); };
    if (rows(members[0]) != rows(all[0])) continue;
    for (const int m : members) units.of[m] = to;
    all.insert(all.end(), members.begin(), members.end());
    std::sort(all.begin(), all.end());
    members.clear();
  }
}

// Reductions of rows as row ops: those of the last axis keep it, and a sum of large elementwise results over the last
// and other axes (the square of a norm) is one of row sums.
std::shared_ptr<const Graph> with_row_reductions(const Graph& source, const Tuning& tuning) {
  return rewrite(source, [&](const RewriteNode& at) -> std::vector<Value> {
    if (at.node.op != Op::reduce_sum && at.node.op != Op::reduce_max) return {};
    const Value x = at.operands[0];
    const int last = x.rank() - 1;
    const Ints& axes = at.node.attributes.get<Ints>("axes");
    if (last < 1 || axes.empty() || axes.back() != last || x.shape().elements() == 0) return {};
    const bool large = std::cmp_greater_equal(x.type().bytes(), tuning.deferred_summand_bytes);
    if (axes.size() > 1 && (at.node.op != Op::reduce_sum || !large || !is_row_op(at.target, x.node()))) return {};
    if (axes.size() == 1 && at.node.attributes.get<bool>("keep")) return {};
    const Attributes kept{{"axes", Ints{last}}, {"keep", true}};
    const Value rows = at.target.append_one(at.node.op, std::vector{x}, kept);
    if (axes.size() == 1) return {reshape(rows, at.node.outputs[0].shape)};
    return {at.target.append_one(at.node.op, std::vector{rows}, at.node.attributes)};
  });
}

// Why a group of ops with a reduction stays apart, op by op; empty when it becomes a fused reduction.
std::string refusal(const Graph& graph, const std::vector<int>& members, const Tuning& tuning) {
  const std::int64_t rows = count_rows(graph, members);
  if (members.size() < 2) return "no elementwise op can join the reduction";
  std::size_t bytes = 0;
  for (const int m : members) bytes = std::max(bytes, graph.node(m).outputs[0].bytes());
  if (rows < tuning.fewest_rows && bytes > k_small_bytes)
    return std::to_string(rows) + " rows are too few for several threads";
  return "";
}

// Nodes with a large result that sums over rows read. A step repeats what a sum over all steps has once.
PerNode<bool> summed_nodes(const Graph& graph, const Tuning& tuning) {
  const auto large_bytes = static_cast<std::size_t>(tuning.deferred_summand_bytes / 4);
  PerNode<int> sums(graph);
  for (const Node& node : graph.nodes())
    if (summed_rows(graph, node) > 1) ++sums[node.inputs[0].node];
  PerNode<bool> summed(graph);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto& outputs = graph.nodes()[i].outputs;
    const bool large = outputs.size() == 1 && outputs[0].bytes() >= large_bytes;
    summed[i] = large && sums[i] > 0 && !is_half(outputs[0].dtype);
  }
  return summed;
}

// The graph, and the nodes that row_units may group.
struct Rows {
  std::shared_ptr<const Graph> graph;
  PerNode<bool> by_rows;
  PerNode<int> depth;  // group_depths

  const Node& node(std::size_t i) const { return graph->nodes()[i]; }
  bool join(std::size_t a, std::size_t b) const {
    const auto rows = [&](std::size_t i) { return leading_axes(node(i).outputs[0].shape); };
    return by_rows[a] && by_rows[b] && depth[a] == depth[b] && rows(a) == rows(b);
  }
};
Rows rows_of(std::shared_ptr<const Graph> graph) {
  Rows rows{std::move(graph), {}, {}};
  for (const Node& node : rows.graph->nodes()) rows.by_rows.push_back(is_row_op(*rows.graph, node));
  rows.depth = group_depths(*rows.graph, rows.by_rows);
  return rows;
}

// The ops that compute a value again, ascending; empty where that would cost more than to keep it.
std::set<std::int32_t> ops_again(const Graph& graph, std::int32_t node) {
  constexpr std::size_t k_most_ops = 6;
  std::set<std::int32_t> ops;
  std::set<ValueId> read;
  std::vector<ValueId> pending{{node, 0}};
  std::size_t bytes = 0;
  int expensive = 0;
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    const Node& from = graph.node(id.node);
    if (!is_elementwise(from.op) && from.op != Op::broadcast) {
      if (read.insert(id).second) bytes += graph.type(id).bytes();
      continue;
    }
    if (!ops.insert(id.node).second) continue;
    expensive += op_info(from.op).cost == OpCost::expensive;
    pending.insert(pending.end(), from.inputs.begin(), from.inputs.end());
  }
  const std::size_t own = graph.node(node).outputs[0].bytes();
  const bool costs_more = ops.size() > k_most_ops || expensive > 1 || bytes > own + own / 8;
  return costs_more ? std::set<std::int32_t>() : ops;
}

// Values that a group makes for itself and for later groups, larger than caches: the later ones compute them again,
// from what they come from. The exponentials of a softmax over a vocabulary, say, for its gradient.
std::map<ValueId, std::set<std::int32_t>> values_again(const Rows& rows, const Tuning& tuning) {
  const Graph& graph = *rows.graph;
  std::map<ValueId, std::set<std::int32_t>> again;
  PerNode<bool> stays(rows.depth.size()), goes(stays);  // read by other ops or outputs; by later groups
  for (const NamedValue& output : graph.outputs()) stays[output.value.node] = true;
  for (std::size_t i = 0; i < stays.size(); ++i)
    for (const ValueId& id : rows.node(i).inputs) {
      const std::int32_t from = id.node;
      if (rows.by_rows[i] && rows.depth[i] > rows.depth[from]) goes[from] = true;
      else if (!rows.join(from, i)) stays[from] = true;
    }
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(stays.size()); ++i) {
    const Node& node = graph.node(i);
    const bool large = is_elementwise(node.op) &&
                       std::cmp_greater_equal(node.outputs[0].bytes(), tuning.hoisted_reduction_bytes * 4);
    if (!large || !rows.by_rows[i] || stays[i] || !goes[i]) continue;
    if (auto ops = ops_again(graph, i); !ops.empty()) again[{i, 0}] = std::move(ops);
  }
  return again;
}

// The graph in which later groups have ops of their own for such values. These are as deep as their readers.
Rows with_values_again(Rows rows, const Tuning& tuning, PassLog* log) {
  const auto again = values_again(rows, tuning);
  if (again.empty()) return rows;
  for (const auto& [id, ops] : again)
    if (log)
      log->add("computed " + rows.graph->type(id).text() + " again in a later group",
               "its " + std::to_string(ops.size()) + " ops cost less than to keep it");
  std::map<std::int32_t, int> depth_of;  // of copies, by node of the result
  std::map<std::pair<int, std::int32_t>, Value> copies;  // by depth of the reader and node of the source
  std::map<ValueId, Value> made;  // of the source, in the target
  const auto copied = rewrite(*rows.graph, [&](const RewriteNode& at) -> std::vector<Value> {
    const int depth = rows.depth[at.id];
    std::vector<Value> operands(at.operands.begin(), at.operands.end());
    for (std::size_t k = 0; k < operands.size(); ++k) made[at.node.inputs[k]] = at.operands[k];
    for (std::size_t k = 0; rows.by_rows[at.id] && k < operands.size(); ++k) {
      const auto value = again.find(at.node.inputs[k]);
      if (value == again.end() || rows.depth[value->first.node] == depth) continue;
      for (const std::int32_t op : value->second) {
        Value& copy = copies[{depth, op}];
        if (copy) continue;
        const Node& node = at.source.node(op);
        std::vector<Value> in;
        for (const ValueId& id : node.inputs)
          in.push_back(value->second.contains(id.node) ? copies.at({depth, id.node}) : made.at(id));
        copy = at.target.append_one(node.op, in, node.attributes);
        depth_of[copy.id().node] = depth;
      }
      operands[k] = copies.at({depth, value->first.node});
    }
    return at.target.append(at.node.op, operands, at.node.attributes, at.node.body);
  });
  Rows result = rows_of(copied);
  for (const auto& [node, depth] : depth_of) result.depth[node] = depth;
  return result;
}

Units row_units(const Rows& rows, const Tuning& tuning, PassLog* log) {
  const Graph& graph = *rows.graph;
  const auto nodes = graph.nodes();
  const PerNode<bool>& by_rows = rows.by_rows;
  const PerNode<bool> summed = summed_nodes(graph, tuning);
  NodeSets sets(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const ValueId& id : nodes[i].inputs) {
      const std::int32_t from = id.node;
      if (rows.join(from, i))
        sets.join(static_cast<int>(from), static_cast<int>(i));
    }
  std::map<int, std::vector<int>> groups;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (by_rows[i]) groups[sets.root(static_cast<int>(i))].push_back(static_cast<int>(i));
  Units units{{}, PerNode<int>(graph, -1)};
  for (auto& [root, members] : groups) {
    const bool reduces = std::any_of(members.begin(), members.end(), [&](int m) {
      return op_info(graph.node(m).op).kind == OpKind::reduce || summed[m];
    });
    if (!reduces) continue;
    if (const std::string why = refusal(graph, members, tuning); !why.empty()) {
      const Node& last = graph.node(members.back());
      if (log) log->add("left " + node_text(last) + " and its operands ungrouped", why, last.origin.layer);
      continue;
    }
    for (const int m : members) units.of[m] = static_cast<int>(units.members.size());
    units.members.push_back(std::move(members));
  }
  pull_producers(graph, by_rows, units);
  join_to_readers(graph, units);
  return units;
}

void note_group(PassLog* log, const Graph& graph, const std::vector<int>& members, const Boundary& boundary) {
  if (!log) return;
  log->add("grouped " + std::to_string(members.size()) + " row ops of " + std::to_string(count_rows(graph, members)) +
               " rows, " + std::to_string(boundary.operands.size()) + " operands, " +
               std::to_string(boundary.results.size()) + " results",
           "each row depends on its own row alone: its values stay in a cache or in shared memory",
           boundary.origin.layer);
}

std::shared_ptr<const Graph> fused_reductions_of(const Graph& source, const Tuning& tuning, PassLog* log) {
  const Rows rows = with_values_again(rows_of(with_row_reductions(source, tuning)), tuning, log);
  const Graph& graph = *rows.graph;
  return with_units(graph, row_units(rows, tuning, log),
                    [&](const std::vector<int>& members, const Boundary& boundary, Graph& target, ValueMap& values) {
                      note_group(log, graph, members, boundary);
                      emit_group(Op::fused_reduction, graph, members, boundary, target, values);
                    });
}

}  // namespace

std::shared_ptr<const Graph> fused_reductions(const Graph& graph, const Tuning& tuning, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) { return fused_reductions_of(g, tuning, log); }, log);
}

}  // namespace unroll
