// SPDX-License-Identifier: Apache-2.0
#include "core/passes/memory/branches.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "core/passes/passes.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

bool is_loop(const Node& node) { return node.op == Op::scan && scan_layout(node).n_states > 0; }
// A claimed node may bring threads of its own.
bool can_join(const Node& node) {
  return node.op != Op::input && node.op != Op::constant && !is_loop(node) &&
         !node.attributes.get_or<bool>("claimed", false);
}

// Nodes lie in layers: loops with d - 1 loops before them in layer 2d - 1, other nodes with d loops before them in
// layer 2d. A fork is layer 2d - 1 with parts of the layers around it: of the one before what only reaches that layer
// through one loop, of the one after what is reached through one loop alone. So no path leaves a fork and comes back.
class BranchFinder {
 public:
  explicit BranchFinder(const Graph& graph)
      : nodes_(graph.nodes()), layer_(nodes_.size(), 0), of_(nodes_.size()), users_(nodes_.size()) {}

  std::vector<BranchOf> run() {
    find_layers();
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (const ValueId& id : nodes_[i].inputs) users_[id.node].push_back(i);
    for (std::size_t i = nodes_.size(); i-- > 0;)
      if (can_join(nodes_[i])) join_before(i);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (can_join(nodes_[i]) && of_[i].fork < 0) join_after(i);
    return of_;
  }

 private:

  void find_layers() {
    std::vector<std::vector<std::size_t>> loops;  // [depth]
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      int depth = 0;
      for (const ValueId& id : nodes_[i].inputs) depth = std::max(depth, (layer_[id.node] + 1) / 2);
      layer_[i] = is_loop(nodes_[i]) ? 2 * depth + 1 : 2 * depth;
      if (!is_loop(nodes_[i])) continue;
      loops.resize(std::max(loops.size(), static_cast<std::size_t>(depth) + 1));
      loops[depth].push_back(i);
    }
    for (const auto& same : loops) {
      if (same.size() < 2) continue;
      const auto fork = static_cast<std::int32_t>(fork_layers_.size());
      for (std::size_t b = 0; b < same.size(); ++b) of_[same[b]] = {fork, static_cast<std::int32_t>(b)};
      fork_layers_.push_back(layer_[same[0]]);
    }
  }

  // Joins the fork of the next layer when all its readers up to there are in one branch.
  void join_before(std::size_t i) {
    BranchOf all;
    for (const std::size_t user : users_[i]) {
      if (layer_[user] > layer_[i] + 1) continue;
      const BranchOf its = of_[user];
      if (its.fork < 0 || fork_layers_[its.fork] != layer_[i] + 1) return;
      if (all.fork >= 0 && !(its == all)) return;
      all = its;
    }
    of_[i] = all;
  }

  // Joins the fork of the layer before when all its operands from there on are in one branch.
  void join_after(std::size_t i) {
    BranchOf all;
    for (const ValueId& id : nodes_[i].inputs) {
      const BranchOf its = of_[id.node];
      const bool in_fork = its.fork >= 0 && fork_layers_[its.fork] == layer_[i] - 1;
      if (!in_fork && layer_[id.node] >= layer_[i] - 1) return;
      if (!in_fork) continue;
      if (all.fork >= 0 && !(its == all)) return;
      all = its;
    }
    of_[i] = all;
  }

  std::span<const Node> nodes_;
  std::vector<int> layer_;
  std::vector<BranchOf> of_;
  std::vector<int> fork_layers_;  // [fork] of its loops
  std::vector<std::vector<std::size_t>> users_;
};

// The order of the nodes in which those of a fork are neighbors; otherwise as near as can be to the order they have.
std::vector<std::size_t> order_nodes(const Graph& graph, const std::vector<BranchOf>& of) {
  const std::size_t n = graph.nodes().size();
  std::size_t n_forks = 0;
  for (const BranchOf& b : of) n_forks = std::max(n_forks, static_cast<std::size_t>(b.fork + 1));
  const auto unit_of = [&](std::size_t i) { return of[i].fork < 0 ? i : n + static_cast<std::size_t>(of[i].fork); };
  std::vector<std::vector<std::size_t>> members(n + n_forks), readers(n + n_forks);
  std::vector<std::size_t> unmet(n + n_forks, 0), place(n + n_forks, n);  // place: of its first loop
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t unit = unit_of(i);
    members[unit].push_back(i);
    if (of[i].fork < 0 || is_loop(graph.nodes()[i])) place[unit] = std::min(place[unit], i);
    for (const ValueId& id : graph.nodes()[i].inputs) {
      const std::size_t from = unit_of(id.node);
      if (from == unit) continue;
      readers[from].push_back(unit);
      ++unmet[unit];
    }
  }
  const auto later = [&](std::size_t a, std::size_t b) { return place[a] > place[b]; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> ready(later);
  for (std::size_t unit = 0; unit < n + n_forks; ++unit)
    if (!members[unit].empty() && unmet[unit] == 0) ready.push(unit);
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t unit = ready.top();
    ready.pop();
    std::stable_sort(members[unit].begin(), members[unit].end(),
                     [&](std::size_t a, std::size_t b) { return of[a].branch < of[b].branch; });
    order.insert(order.end(), members[unit].begin(), members[unit].end());
    for (const std::size_t reader : readers[unit])
      if (--unmet[reader] == 0) ready.push(reader);
  }
  return order;
}

// Nodes in an order in which sums over ranks begin as soon as their operands are known. Those of a fork stay neighbors.
class EarlyOrder {
 public:
  explicit EarlyOrder(const Graph& graph) : nodes_(graph.nodes()), branches_(BranchFinder(graph).run()) {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (branches_[i].fork >= 0) forks_[branches_[i].fork].push_back(i);
  }

  std::vector<std::size_t> run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].op == Op::all_reduce) take(needed_by(i));
    std::set<std::size_t> rest;
    for (std::size_t i = 0; i < nodes_.size(); ++i) rest.insert(i);
    take(rest);
    return order_;
  }

 private:
  std::set<std::size_t> needed_by(std::size_t node) const {
    std::set<std::size_t> needed;
    std::vector<std::size_t> open{node};
    while (!open.empty()) {
      const std::size_t i = open.back();
      open.pop_back();
      if (taken_.contains(i) || !needed.insert(i).second) continue;
      for (const ValueId& from : nodes_[i].inputs) open.push_back(from.node);
      if (const auto fork = forks_.find(branches_[i].fork); fork != forks_.end())
        open.insert(open.end(), fork->second.begin(), fork->second.end());
    }
    return needed;
  }
  void take(const std::set<std::size_t>& nodes) {
    for (const std::size_t i : nodes)
      if (taken_.insert(i).second) order_.push_back(i);
  }

  std::span<const Node> nodes_;
  std::vector<BranchOf> branches_;
  std::map<std::int32_t, std::vector<std::size_t>> forks_;
  std::set<std::size_t> taken_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::vector<BranchOf> find_branches(const Graph& graph) { return BranchFinder(graph).run(); }

std::vector<Fork> neighboring_branches(const Graph& graph) {
  std::vector<Fork> forks;
  const std::vector<BranchOf> of = find_branches(graph);
  std::vector<std::int32_t> nodes_in(of.size() + 1, 0);
  for (const BranchOf& b : of) ++nodes_in[b.fork + 1];
  for (std::size_t i = 0; i < of.size();) {
    Fork fork{{static_cast<std::int32_t>(i)}};
    std::size_t end = i + 1;
    for (; end < of.size() && of[end].fork == of[i].fork && of[end].branch >= of[end - 1].branch; ++end)
      if (of[end].branch != of[end - 1].branch) fork.bounds.push_back(static_cast<std::int32_t>(end));
    fork.bounds.push_back(static_cast<std::int32_t>(end));
    const bool whole = std::cmp_equal(nodes_in[of[i].fork + 1], end - i);
    if (of[i].fork >= 0 && whole) forks.push_back(std::move(fork));
    i = end;
  }
  return forks;
}

std::shared_ptr<const Graph> in_order(const Graph& graph, const std::vector<std::size_t>& order) {
  auto target = std::make_shared<Graph>();
  std::vector<std::vector<Value>> map(graph.nodes().size());
  const auto at = [&](const ValueId& id) {
    return map[id.node][id.output];
  };
  for (const NamedValue& input : graph.inputs())
    map[input.value.node] = {target->input(input.name, graph.type(input.value))};
  for (const std::size_t i : order) {
    if (!map[i].empty()) continue;
    const Node& node = graph.nodes()[i];
    std::vector<Value> operands;
    for (const ValueId& id : node.inputs) operands.push_back(at(id));
    map[i] = target->append_copy(graph, node, operands);
  }
  for (const NamedValue& output : graph.outputs()) target->output(output.name, at(output.value));
  return target;
}

std::shared_ptr<const Graph> order_branches(const Graph& graph, PassLog* log) {
  const std::shared_ptr<const Graph> target = in_order(graph, order_nodes(graph, find_branches(graph)));
  for (const Fork& fork : neighboring_branches(*target))
    if (log) log->add("scheduled " + std::to_string(fork.n_branches()) + " branches in parallel",
                      "they are independent");
  return target;
}

std::shared_ptr<const Graph> early_exchanges(const Graph& graph) {
  const auto nodes = graph.nodes();
  const auto exchanges = [](const Node& node) { return node.op == Op::all_reduce; };
  if (std::none_of(nodes.begin(), nodes.end(), exchanges)) return copy_graph(graph);
  return in_order(graph, EarlyOrder(graph).run());
}

}  // namespace unroll
