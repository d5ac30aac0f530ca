// SPDX-License-Identifier: Apache-2.0
// A minimum cut between the values that cannot be recomputed and those that are used. A value is two vertices joined by
// an edge, whose cost is its bytes. Cutting the edge means saving the value.
#include "core/autodiff/saved.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>

namespace unroll {

namespace {

constexpr std::int64_t k_unlimited = std::numeric_limits<std::int64_t>::max() / 4;

// Edmonds-Karp: a body has at most a few hundred values.
class Network {
 public:
  explicit Network(int n_vertices) : first_(static_cast<std::size_t>(n_vertices)) {}

  void connect(int from, int to, std::int64_t capacity) {
    first_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    first_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
  }
  // Pushes as much as possible from source to sink; returns which vertices the source still reaches.
  std::vector<bool> cut(int source, int sink) {
    for (;;) {
      const std::vector<std::size_t> arrived_by = search(source);
      if (arrived_by[sink] == k_nowhere) {
        std::vector<bool> reached(first_.size());
        for (std::size_t v = 0; v < reached.size(); ++v) reached[v] = arrived_by[v] != k_nowhere;
        reached[source] = true;
        return reached;
      }
      push(source, sink, arrived_by);
    }
  }

 private:
  struct Edge {
    int to;
    std::int64_t capacity;  // what may still pass; edge e^1 is its reverse
  };
  static constexpr std::size_t k_nowhere = static_cast<std::size_t>(-1);

  // The edge by which each vertex is reached on a shortest way.
  std::vector<std::size_t> search(int source) const {
    std::vector<std::size_t> arrived_by(first_.size(), k_nowhere);
    std::deque<int> queue{source};
    while (!queue.empty()) {
      const auto v = static_cast<std::size_t>(queue.front());
      queue.pop_front();
      for (const std::size_t e : first_[v]) {
        const int to = edges_[e].to;
        if (edges_[e].capacity == 0 || to == source || arrived_by[to] != k_nowhere) continue;
        arrived_by[to] = e;
        queue.push_back(to);
      }
    }
    return arrived_by;
  }
  void push(int source, int sink, const std::vector<std::size_t>& arrived_by) {
    const auto edge_to = [&](int v) { return arrived_by[v]; };
    std::int64_t amount = k_unlimited;
    for (int v = sink; v != source; v = edges_[edge_to(v) ^ 1].to)
      amount = std::min(amount, edges_[edge_to(v)].capacity);
    for (int v = sink; v != source; v = edges_[edge_to(v) ^ 1].to) {
      edges_[edge_to(v)].capacity -= amount;
      edges_[edge_to(v) ^ 1].capacity += amount;
    }
  }

  std::vector<Edge> edges_;
  std::vector<std::vector<std::size_t>> first_;  // edges that leave a vertex
};

// A reduction is a few bytes made of many: kept.
bool is_cheap(const Node& node) {
  const OpInfo& info = op_info(node.op);
  return info.cost != OpCost::expensive && info.kind != OpKind::reduce;
}

// Values that `used` can be traced back to through ops that can be computed again, `available` ones left out.
std::set<ValueId> candidates(const Graph& graph, std::span<const ValueId> used, const std::set<ValueId>& available,
                             const MayRecompute& can_recompute) {
  std::set<ValueId> found;
  std::vector<ValueId> pending(used.begin(), used.end());
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (available.contains(id) || !found.insert(id).second) continue;
    const Node& node = graph.node(id.node);
    if (can_recompute(node)) pending.insert(pending.end(), node.inputs.begin(), node.inputs.end());
  }
  return found;
}

// Bytes that a result is computed from through cheap ops, besides constants.
std::size_t bytes_behind(const Graph& graph, const Node& node, const std::set<ValueId>& constant) {
  std::set<ValueId> seen;
  std::vector<ValueId> pending(node.inputs.begin(), node.inputs.end());
  std::size_t bytes = 0;
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (constant.contains(id) || !seen.insert(id).second) continue;
    const Node& from = graph.node(id.node);
    if (from.op != Op::input && is_cheap(from)) pending.insert(pending.end(), from.inputs.begin(), from.inputs.end());
    else bytes += graph.type(id).bytes();
  }
  return bytes;
}

constexpr std::size_t k_much_larger = 8;  // then saving and reading cost more than computing again

}  // namespace

std::vector<ValueId> choose_saved(const Graph& graph, std::span<const ValueId> used, std::span<const ValueId> available,
                                  std::span<const ValueId> constant) {
  const std::set<ValueId> fixed(constant.begin(), constant.end());
  return choose_saved(graph, used, available, [&](const Node& node) {
    if (is_cheap(node)) return true;
    return is_elementwise(node.op) && node.outputs[0].bytes() >= k_much_larger * bytes_behind(graph, node, fixed);
  });
}

std::vector<ValueId> choose_saved(const Graph& graph, std::span<const ValueId> used,
                                  std::span<const ValueId> available, const MayRecompute& may_recompute) {
  const auto can_recompute = [&](const Node& node) { return node.op != Op::input && may_recompute(node); };
  const std::set<ValueId> at_hand(available.begin(), available.end());
  const std::set<ValueId> values = candidates(graph, used, at_hand, can_recompute);
  std::map<ValueId, int> vertex;  // of a value: v, and v + 1 for "can be had"
  for (const ValueId id : values) vertex.emplace(id, 2 + 2 * static_cast<int>(vertex.size()));
  constexpr int source = 0, sink = 1;
  Network network(2 + 2 * static_cast<int>(vertex.size()));
  for (const auto& [id, v] : vertex) {
    network.connect(v, v + 1,
                    static_cast<std::int64_t>(std::min<std::size_t>(graph.type(id).bytes(), k_unlimited / 2)));
    const Node& node = graph.node(id.node);
    if (!can_recompute(node)) {
      network.connect(source, v, k_unlimited);
      continue;
    }
    for (const ValueId input : node.inputs)
      if (!at_hand.contains(input)) network.connect(vertex.at(input) + 1, v, k_unlimited);
  }
  for (const ValueId id : used)
    if (!at_hand.contains(id)) network.connect(vertex.at(id) + 1, sink, k_unlimited);

  const std::vector<bool> reached = network.cut(source, sink);
  std::vector<ValueId> saved;
  for (const auto& [id, v] : vertex)
    if (reached[v] && !reached[static_cast<std::size_t>(v) + 1]) saved.push_back(id);
  return saved;
}

}  // namespace unroll
