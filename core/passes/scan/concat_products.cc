// SPDX-License-Identifier: Apache-2.0
// Products with a common operand become one product of concatenated matrices: h U_f, h U_n -> h [U_f U_n] (the gates of
// a cell), d_f^T h, d_n^T h -> [d_f d_n]^T h (their gradients). Sums of products likewise: d_f U_f + d_n U_n -> [d_f
// d_n] [U_f; U_n] (Appleyard et al. 2016, arXiv 1604.01946, section 3.1, for any cell).
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/passes/group/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// The graph a pass works on: a loop's body, or what lies around loops.
struct Surroundings {
  bool is_body = false;
  int n_states = 0, n_varying = 0;  // of a body's inputs: states come first, then what else differs by step
};

struct Product {
  bool turned_a, turned_b;
  int m_axis() const { return turned_a ? 1 : 0; }  // of a
  int k_axis_a() const { return turned_a ? 0 : 1; }
  int k_axis_b() const { return turned_b ? 1 : 0; }
  int n_axis() const { return turned_b ? 0 : 1; }  // of b
};
Product product_of(const Node& node) {
  return {node.attributes.get<bool>("transpose_a"), node.attributes.get<bool>("transpose_b")};
}
bool is_product(const Node& node) {
  return node.op == Op::matmul && node.inputs.size() == 2 && node.outputs[0].shape.rank() == 2 &&
         node.outputs[0].shape.elements() > 0;
}

enum class Join : std::uint8_t { columns, rows, sum, reduction };  // of the result
struct Group {
  Join join;
  std::vector<int> products;  // or reductions, in the order in which they lie side by side
  std::vector<int> members;   // products, and for a sum the additions, for reductions the concat; ascending
  std::vector<ValueId> rest;  // sum: what else is added
  ValueId root = {};          // sum: the last addition; reduction: the concat
};

class Concat {
 public:
  Concat(const Graph& graph, const Surroundings& around, const Tuning& tuning)
      : graph_(graph), around_(around), tuning_(tuning), uses_(count_uses(graph)), fixed_(graph, true),
        needs_state_(graph) {
    for (int i = 0; i < around.n_varying; ++i) fixed_[graph.inputs()[i].value.node] = false;
    for (int i = 0; i < around.n_states; ++i) needs_state_[graph.inputs()[i].value.node] = true;
    for (std::size_t n = 0; n < fixed_.size(); ++n)
      for (const ValueId& id : graph.nodes()[n].inputs) {
        fixed_[n] = fixed_[n] && fixed_[id.node];
        needs_state_[n] = needs_state_[n] || needs_state_[id.node];
      }
    units_.of.assign(fixed_.size(), -1);
  }

  void join_products() {
    for (Group& group : sums()) take(std::move(group));
    for (Group& group : shared(Join::columns)) take(std::move(group));
    for (Group& group : shared(Join::rows)) take(std::move(group));
  }
  void join_reductions() {
    for (Group& group : reductions()) take(std::move(group));
  }
  void note(PassLog& log) const {
    for (const Group& group : groups_) {
      const std::string parts = std::to_string(group.products.size()) + " of " + node_text(node(group.products[0]));
      log.add("concatenated " + parts, group.join == Join::sum         ? "their sum is one product over a longer K"
                                 : group.join == Join::reduction ? "their operands are adjacent"
                                                                 : "they share one operand");
    }
  }
  std::shared_ptr<const Graph> result() const {
    if (groups_.empty()) return copy_graph(graph_);
    const EmitUnit emit_unit = [this](const std::vector<int>& members, const Boundary&, Graph&, ValueMap& values) {
      emit(groups_[units_.of[members[0]]], values);
    };
    return with_units(graph_, units_, emit_unit);
  }

 private:
  const Node& node(int n) const { return graph_.node(n); }
  bool is_fixed(const ValueId& id) const { return fixed_[id.node]; }
  bool used_once(const ValueId& id) const { return uses_[id] == 1; }

  // Outside of loops weights are put side by side in every run, and readers other than elementwise ones want whole
  // rows.
  bool pays(int n) const {
    const Node& product = node(n);
    if (around_.is_body) return true;
    const bool constant = node(product.inputs[1].node).op == Op::constant;
    if (!constant && product.outputs[0].shape[0] < tuning_.fewest_product_rows) return false;
    for (const Node& reader : graph_.nodes())
      for (const ValueId& id : reader.inputs)
        if (id.node == n && !is_elementwise(reader.op)) return false;
    return std::none_of(graph_.outputs().begin(), graph_.outputs().end(),
        [&](const NamedValue& o) { return o.value.node == n; });
  }

  // Products with one left operand and weights, or in a loop with one right operand and what differs by step.
  std::vector<Group> shared(Join join) const {
    std::map<std::tuple<ValueId, bool, bool>, std::vector<int>> found;
    for (int n = 0; n < static_cast<int>(graph_.nodes().size()); ++n) {
      if (!is_product(node(n)) || units_.of[n] >= 0) continue;
      const ValueId a = node(n).inputs[0], b = node(n).inputs[1];
      const Product p = product_of(node(n));
      if (join == Join::columns ? !is_fixed(b) || (around_.is_body && is_fixed(a)) || !pays(n)
                                : !around_.is_body || is_fixed(a) || is_fixed(b))
        continue;
      found[{join == Join::columns ? a : b, p.turned_a, p.turned_b}].push_back(n);
    }
    std::vector<Group> groups;
    for (auto& [key, products] : found) {
      const std::size_t other = join == Join::columns ? 1 : 0;
      std::stable_sort(products.begin(), products.end(),
                       [&](int x, int y) { return node(x).inputs[other] < node(y).inputs[other]; });
      if (products.size() > 1) groups.push_back({join, products, products, {}, {}});
    }
    return groups;
  }

  bool is_sum(const ValueId& id, const Shape& shape) const {
    const Node& add = node(id.node);
    return add.op == Op::add && graph_.type(add.inputs[0]).shape == shape && graph_.type(add.inputs[1]).shape == shape;
  }
  // Appends the summands of `id` to `found`, and the additions on the way to `members`.
  void add_summands(const ValueId& id, const Shape& shape, bool is_root, std::vector<ValueId>& found,
                    std::vector<int>& members) const {
    if (!is_sum(id, shape) || !(is_root || used_once(id))) {
      found.push_back(id);
      return;
    }
    members.push_back(id.node);
    for (const ValueId& operand : node(id.node).inputs) add_summands(operand, shape, false, found, members);
  }
  // Sums of products in a loop: of what differs by step with weights.
  std::vector<Group> sums() const {
    std::vector<Group> groups;
    if (!around_.is_body) return groups;
    std::set<int> inner;
    for (int n = static_cast<int>(graph_.nodes().size()); n-- > 0;) {
      if (node(n).op != Op::add || inner.contains(n)) continue;
      Group group{Join::sum, {}, {}, {}, {n, 0}};
      std::vector<ValueId> found;
      add_summands(group.root, node(n).outputs[0].shape, true, found, group.members);
      inner.insert(group.members.begin(), group.members.end());
      std::map<std::tuple<bool, bool, bool>, std::vector<int>> kinds;
      for (const ValueId& id : found) {
        const Node& leaf = node(id.node);
        if (!is_product(leaf) || !used_once(id) || is_fixed(leaf.inputs[0]) || !is_fixed(leaf.inputs[1])) continue;
        const Product p = product_of(leaf);
        kinds[{p.turned_a, p.turned_b, needs_state(leaf.inputs[0])}].push_back(id.node);
      }
      for (const auto& [kind, products] : kinds)
        if (products.size() > group.products.size()) group.products = products;
      if (group.products.size() < 2) continue;
      std::sort(group.products.begin(), group.products.end(),
          [&](int x, int y) { return node(x).inputs[0] < node(y).inputs[0]; });
      for (const ValueId& id : found)
        if (std::find(group.products.begin(), group.products.end(), id.node) == group.products.end())
          group.rest.push_back(id);
      group.members.insert(group.members.end(), group.products.begin(), group.products.end());
      groups.push_back(std::move(group));
    }
    return groups;
  }
  // Products that need no state move before the loop, so they stay apart from those that do.
  bool needs_state(const ValueId& id) const { return needs_state_[id.node]; }

  // Sums over rows of values that lie side by side (bias gradients), each once.
  std::vector<Group> reductions() const {
    std::vector<Group> groups;
    for (int c = 0; around_.is_body && c < static_cast<int>(graph_.nodes().size()); ++c) {
      const Node& side_by_side = node(c);
      if (side_by_side.op != Op::concat || side_by_side.attributes.get<std::int64_t>("axis") != 1) continue;
      Group group{Join::reduction, {}, {c}, {}, {c, 0}};
      for (const ValueId& part : side_by_side.inputs)
        for (int n = 0; n < static_cast<int>(graph_.nodes().size()); ++n) {
          const Node& sum = node(n);
          const bool over_rows = sum.op == Op::reduce_sum && sum.inputs[0] == part &&
              sum.outputs[0].shape.rank() == 1 &&
                                 sum.attributes.get<Ints>("axes") == Ints{0};
          if (over_rows && std::find(group.products.begin(), group.products.end(), n) == group.products.end()) {
            group.products.push_back(n);
            break;
          }
        }
      if (group.products.size() != side_by_side.inputs.size() || group.products.size() < 2) continue;
      group.members.insert(group.members.end(), group.products.begin(), group.products.end());
      groups.push_back(std::move(group));
    }
    return groups;
  }

  // Unless something outside of the group lies between two of its members.
  void take(Group group) {
    std::sort(group.members.begin(), group.members.end());
    for (const int m : group.members)
      if (units_.of[m] >= 0) return;
    const int unit = static_cast<int>(units_.members.size());
    units_.members.push_back(group.members);
    for (const int m : group.members) units_.of[m] = unit;
    if (has_order()) {
      groups_.push_back(std::move(group));
      return;
    }
    units_.members.pop_back();
    for (const int m : group.members) units_.of[m] = -1;
  }
  // Units can be put in an order in which each reads earlier ones only.
  bool has_order() const {
    const std::size_t n = graph_.nodes().size(), n_units = units_.members.size();
    const auto unit_of = [&](std::size_t i) {
      return units_.of[i] < 0 ? n_units + i : static_cast<std::size_t>(units_.of[i]);
    };
    std::vector<std::vector<std::size_t>> readers(n_units + n);
    std::vector<int> waits(n_units + n, 0);
    for (std::size_t i = 0; i < n; ++i)
      for (const ValueId& id : graph_.nodes()[i].inputs)
        if (const auto from = unit_of(id.node); from != unit_of(i)) {
          readers[from].push_back(unit_of(i));
          ++waits[unit_of(i)];
        }
    std::vector<std::size_t> ready;
    for (std::size_t u = 0; u < waits.size(); ++u)
      if (waits[u] == 0) ready.push_back(u);
    std::size_t done = 0;
    for (; !ready.empty(); ++done) {
      const std::size_t u = ready.back();
      ready.pop_back();
      for (const std::size_t reader : readers[u])
        if (--waits[reader] == 0) ready.push_back(reader);
    }
    return done == waits.size();
  }

  // The parts of a joined value.
  void spread(const Group& group, Value joined, int axis, ValueMap& values) const {
    std::int64_t start = 0;
    for (const int n : group.products) {
      const std::int64_t size = node(n).outputs[0].shape[axis];
      values[{n, 0}] = slice(joined, axis, start, size);
      start += size;
    }
  }

  void emit(const Group& group, ValueMap& values) const {
    if (group.join == Join::reduction) {
      std::vector<Value> parts;
      for (const ValueId& id : node(group.root.node).inputs) parts.push_back(values.at(id));
      values[group.root] = concat(parts, 1);
      return spread(group, reduce_sum(values[group.root], {0}), 0, values);
    }
    const Product p = product_of(node(group.products[0]));
    const auto operands = [&](std::size_t i, int axis) {
      std::vector<Value> parts;
      for (const int n : group.products) parts.push_back(values.at(node(n).inputs[i]));
      return group.join == Join::sum || (i == 1) == (group.join == Join::columns) ? concat(parts, axis) : parts[0];
    };
    const Value a = operands(0, group.join == Join::sum ? p.k_axis_a() : p.m_axis());
    const Value b = operands(1, group.join == Join::sum ? p.k_axis_b() : p.n_axis());
    const Value product = matmul(a, b, {p.turned_a, p.turned_b});
    if (group.join == Join::sum) {
      Value total = product;
      for (const ValueId& id : group.rest) total = total + values.at(id);
      values[group.root] = total;
      return;
    }
    spread(group, product, group.join == Join::columns ? 1 : 0, values);
  }

  const Graph& graph_;
  const Surroundings& around_;
  const Tuning& tuning_;
  PerValue<int> uses_;
  PerNode<bool> fixed_, needs_state_;  // [node] the same in every step; depends on the states before the step
  Units units_;
  std::vector<Group> groups_;
};

std::shared_ptr<const Graph> concat_in(const Graph& graph, const Surroundings& around, const Tuning& tuning,
                                       PassLog* log) {
  const auto inner = rewrite(graph, [&tuning, log](const RewriteNode& at) -> std::vector<Value> {
    if (at.node.op != Op::scan) return {};
    const ScanLayout l = scan_layout(at.node);
    // The steps of a loop without states run side by side: all it reads differs.
    if (l.steps < tuning.fewest_product_steps || l.n_states == 0) return {};
    const InLoop in_loop(log, at.source, at.node);
    const Surroundings loop{true, l.n_states, l.n_states + l.n_sequences};
    return copy_node(at, concat_in(*at.node.body, loop, tuning, log));
  });
  Concat products(*inner, around, tuning);
  products.join_products();
  if (log) products.note(*log);
  const auto joined = cse(*products.result());
  Concat reductions(*joined, around, tuning);
  reductions.join_reductions();
  if (log) reductions.note(*log);
  return reductions.result();
}

}  // namespace

std::shared_ptr<const Graph> concat_products(const Graph& graph, const Tuning& tuning, PassLog* log) {
  return concat_in(graph, {}, tuning, log);
}

}  // namespace unroll
