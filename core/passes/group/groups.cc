// SPDX-License-Identifier: Apache-2.0
#include "core/passes/group/groups.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace unroll {

NodeSets::NodeSets(std::size_t n_nodes) : parent_(n_nodes) { std::iota(parent_.begin(), parent_.end(), 0); }

int NodeSets::root(int node) {
  while (parent_[node] != node) node = parent_[node];
  return node;
}

void NodeSets::join(int a, int b) {
  a = root(a), b = root(b);
  parent_[std::max(a, b)] = std::min(a, b);
}

PerNode<int> group_depths(const Graph& graph, const PerNode<bool>& can_join) {
  PerNode<int> depth(graph);
  for (std::size_t i = 0; i < depth.size(); ++i)
    for (const ValueId& id : graph.nodes()[i].inputs) {
      const Op op = graph.node(id.node).op;
      const bool step = can_join[i] && !can_join[id.node] && op != Op::input && op != Op::constant;
      depth[i] = std::max(depth[i], depth[id.node] + step);
    }
  return depth;
}

bool is_scalar_constant(const Graph& graph, const ValueId& id) {
  return graph.node(id.node).op == Op::constant && graph.type(id).shape.rank() == 0;
}

bool is_row_reduction(const Graph& graph, const Node& node, std::int64_t fewest_rows) {
  if (node.op != Op::reduce_sum && node.op != Op::reduce_max) return false;
  const Shape& x = graph.type(node.inputs[0]).shape;
  return x.rank() >= 2 && node.attributes.get<bool>("keep") &&
         node.attributes.get<Ints>("axes") == Ints{x.rank() - 1} && x.removed(x.rank() - 1).elements() >= fewest_rows;
}

std::int64_t summed_rows(const Graph& graph, const Node& node) {
  if (node.op != Op::reduce_sum) return 0;
  const Shape& from = graph.type(node.inputs[0]).shape;
  const Ints& axes = node.attributes.get<Ints>("axes");
  if (from.rank() < 2 || axes.empty() || axes.back() != from.rank() - 2) return 0;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != axes[0] + static_cast<std::int64_t>(i)) return 0;
    rows *= from[static_cast<int>(axes[i])];
  }
  return rows;
}

namespace {

class Rebuild {
 public:
  Rebuild(const Graph& graph, const Units& units, const EmitUnit& emit)
      : graph_(graph), units_(units), emit_(emit), done_(graph) {}

  std::shared_ptr<const Graph> run() {
    find_outside();
    for (const NamedValue& input : graph_.inputs()) {
      values_[input.value] = target_->input(input.name, graph_.type(input.value));
      done_[input.value.node] = true;
    }
    for (std::size_t i = 0; i < done_.size(); ++i) visit(static_cast<int>(i));
    for (const NamedValue& output : graph_.outputs()) target_->output(output.name, values_.at(output.value));
    return target_;
  }

 private:
  bool same_unit(std::int32_t a, std::int32_t b) const {
    const int unit = units_.of[a];
    return a == b || (unit >= 0 && unit == units_.of[b]);
  }
  std::vector<int> unit_of(int node) const {
    const int unit = units_.of[node];
    return unit < 0 ? std::vector<int>{node} : units_.members[unit];
  }

  void find_outside() {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph_.nodes().size()); ++i)
      for (const ValueId& id : graph_.node(i).inputs)
        if (!same_unit(id.node, i)) outside_.insert(id);
    for (const NamedValue& output : graph_.outputs()) outside_.insert(output.value);
  }

  // Units in an order in which every operand is ready: by demand, without recursion.
  void visit(int start) {
    std::vector<int> stack{start};
    while (!stack.empty()) {
      const int top = stack.back();
      if (done_[top]) {
        stack.pop_back();
        continue;
      }
      const std::vector<int> unit = unit_of(top);
      const std::size_t before = stack.size();
      for (const int m : unit)
        for (const ValueId& id : graph_.node(m).inputs)
          if (!done_[id.node] && !same_unit(id.node, top)) stack.push_back(id.node);
      if (stack.size() > before) continue;
      stack.pop_back();
      for (const int m : unit) done_[m] = true;
      if (unit.size() == 1) {
        copy(top);
        continue;
      }
      const Boundary boundary = boundary_of(unit);
      const OriginScope of_unit(*target_, boundary.origin);
      emit_(unit, boundary, *target_, values_);
    }
  }

  Origin common_origin(const std::vector<int>& unit) const {
    Origin common{"", Origin::Phase::communication};
    bool several = false;
    for (const int m : unit) {
      const Origin& origin = graph_.node(m).origin;
      common.phase = std::min(common.phase, origin.phase);
      several |= !origin.layer.empty() && !common.layer.empty() && origin.layer != common.layer;
      if (common.layer.empty()) common.layer = origin.layer;
    }
    if (several) common.layer.clear();
    return common;
  }

  void copy(int id) {
    const Node& node = graph_.node(id);
    std::vector<Value> operands;
    for (const ValueId& operand : node.inputs) operands.push_back(values_.at(operand));
    const auto values = target_->append_copy(graph_, node, operands);
    for (std::size_t k = 0; k < values.size(); ++k) values_[{id, static_cast<std::int32_t>(k)}] = values[k];
  }

  Boundary boundary_of(const std::vector<int>& unit) const {
    Boundary boundary;
    std::set<ValueId> seen;
    for (const int m : unit) {
      for (const ValueId& id : graph_.node(m).inputs)
        if (!same_unit(id.node, m) && seen.insert(id).second) boundary.operands.push_back(id);
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph_.node(m).outputs.size()); ++k)
        if (outside_.count({m, k}) > 0) boundary.results.push_back({m, k});
    }
    boundary.origin = common_origin(unit);
    return boundary;
  }

  const Graph& graph_;
  const Units& units_;
  const EmitUnit& emit_;
  std::shared_ptr<Graph> target_ = std::make_shared<Graph>();
  ValueMap values_;
  PerNode<bool> done_;
  std::set<ValueId> outside_;  // read by another unit or a named output
};

}  // namespace

std::shared_ptr<const Graph> with_units(const Graph& graph, const Units& units, const EmitUnit& emit) {
  return Rebuild(graph, units, emit).run();
}

bool is_load(const Graph& graph, const Node& node) {
  return node.op == Op::cast && is_half(graph.type(node.inputs[0]).dtype);
}

void emit_group(Op op, const Graph& graph, const std::vector<int>& members, const Boundary& boundary, Graph& target,
                ValueMap& values) {
  auto body = std::make_shared<Graph>();
  ValueMap inner, loads;
  std::vector<Value> operands;
  const auto is_scalar = [&](const ValueId& id) { return is_scalar_constant(graph, id); };
  const bool only_scalars = std::all_of(boundary.operands.begin(), boundary.operands.end(), is_scalar);
  for (const ValueId& id : boundary.operands)
    if (only_scalars || !is_scalar(id)) {
      inner[id] = body->input("in" + std::to_string(operands.size()), graph.type(id));
      operands.push_back(values.at(id));
    }
  for (const int m : members) {
    const Node& node = graph.node(m);
    std::vector<Value> in;
    for (const ValueId& id : node.inputs) {
      Value& value = inner[id];
      if (!value) value = body->append_one(Op::constant, {}, graph.node(id.node).attributes);
      in.push_back(value);
    }
    Value& load = is_load(graph, node) ? loads[node.inputs[0]] : inner[{m, 0}];
    if (!load) load = body->append_one(node.op, in, node.attributes);
    inner[{m, 0}] = load;
  }
  for (std::size_t k = 0; k < boundary.results.size(); ++k)
    body->output("out" + std::to_string(k), inner.at(boundary.results[k]));
  const auto group = target.append(op, operands, {}, body);
  for (std::size_t k = 0; k < group.size(); ++k) values[boundary.results[k]] = group[k];
}

}  // namespace unroll
