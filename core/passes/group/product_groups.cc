// SPDX-License-Identifier: Apache-2.0
#include "unroll/passes/product_groups.h"

#include <algorithm>
#include <optional>

#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Index = std::int64_t;
using Role = ProductGroup::Role;

bool is_product(const Graph& graph, const Node& node) {
  return node.op == Op::matmul && graph.type(node.inputs[1]).shape.rank() == 2 &&
         node.outputs[0].shape.elements() > 0;
}

// ---- gates

// Columns [first, first + width) of all rows of the product, in order.
struct Columns {
  Index first = 0, width = 0;
};

// The columns that a movement of columns `from` reads. None if it reorders or repeats them, or leaves out rows.
std::optional<Columns> moved(const Graph& graph, const Node& node, Columns from, Index rows) {
  const Shape &x = graph.type(node.inputs[0]).shape, &y = node.outputs[0].shape;
  if (node.op == Op::reshape) return from;
  if (node.op == Op::broadcast) return x.elements() == y.elements() ? std::optional(from) : std::nullopt;
  if (node.op != Op::slice || y.elements() == 0) return std::nullopt;
  const auto axis = static_cast<int>(node.attributes.get<Index>("axis"));
  Index before = 1, inner = from.width;
  for (int i = 0; i < axis; ++i) before *= x[i];
  if (before != rows) return std::nullopt;
  inner /= x[axis];
  return Columns{from.first + node.attributes.get<Index>("start") * inner, y[axis] * inner};
}

class Reads {
 public:
  Reads(const Graph& graph, std::int32_t product) : graph_(graph), columns_(graph.nodes().size()) {
    const Shape& made = graph.node(product).outputs[0].shape;
    gates_.n = made[made.rank() - 1];
    gates_.m = made.elements() / gates_.n;
    columns_[product] = Columns{0, gates_.n};
    for (auto id = product + 1; id < static_cast<std::int32_t>(columns_.size()); ++id) visit(id);
    for (const NamedValue& output : graph.outputs()) add({-1, 0, output.value});
  }

  ProductGates run() {
    const Index units = widths_.empty() ? gates_.n : widths_[0].width;
    const bool even = std::all_of(widths_.begin(), widths_.end(), [&](const Columns& c) {
      return c.width == units && c.first % units == 0;
    });
    const bool gated = even && gates_.n % units == 0;
    gates_.units = gated ? units : gates_.n;
    gates_.gates = gates_.n / gates_.units;
    for (std::size_t i = 0; gated && i < widths_.size(); ++i) gates_.reads[i].gate = widths_[i].first / units;
    return std::move(gates_);
  }

 private:
  const std::optional<Columns>& of(const ValueId& id) const { return columns_[id.node]; }

  void visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (node.inputs.size() == 1 && of(node.inputs[0])) {
      auto& columns = columns_[id];
      columns = moved(graph_, node, *of(node.inputs[0]), gates_.m);
      if (columns) return gates_.movement.push_back(id);
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) add({id, static_cast<std::int32_t>(k), node.inputs[k]});
  }
  void add(const ProductGates::Read& read) {
    if (!of(read.value)) return;
    gates_.reads.push_back(read);
    widths_.push_back(*of(read.value));
  }

  const Graph& graph_;
  std::vector<std::optional<Columns>> columns_;  // [node] of the product and its movement
  std::vector<Columns> widths_;                  // [read]
  ProductGates gates_;
};

// ---- groups

// The role of an operand for results of shape `whole`, [m, units] in any number of axes.
Role role_of(const Shape& operand, const Shape& whole, Index units) {
  if (operand.elements() == 1) return Role::scalar;
  if (operand == whole) return Role::residual;
  // Axes of the operand that repeat: all but the last ones for a bias, the last ones for a row. The loop finds the
  // axes of `whole` that are the units, from the last one on.
  Index columns = 1;
  int first = whole.rank();  // axes [first, rank) are the columns
  while (first > 0 && columns < units) columns *= whole[--first];
  if (columns != units) return Role::other;
  const int missing = whole.rank() - operand.rank();
  const auto is_full = [&](int begin, int end) {
    for (int axis = begin; axis < end; ++axis)
      if (whole[axis] != 1 && (axis < missing || operand[axis - missing] == 1)) return false;
    return true;
  };
  const auto repeats = [&](int begin, int end) {
    for (int axis = std::max(begin, missing); axis < end; ++axis)
      if (operand[axis - missing] != 1) return false;
    return true;
  };
  if (repeats(0, first) && is_full(first, whole.rank())) return Role::bias;
  if (is_full(0, first) && repeats(first, whole.rank())) return Role::row;
  return Role::other;
}

std::optional<ProductGroup> group_of(const Graph& graph, std::int32_t product) {
  const ProductGates gates = product_gates(graph, product);
  if (gates.reads.empty()) return std::nullopt;
  const std::int32_t epilogue = gates.reads[0].node;
  const auto elsewhere = [&](const ProductGates::Read& read) { return read.node != epilogue; };
  if (epilogue < 0 || std::any_of(gates.reads.begin(), gates.reads.end(), elsewhere)) return std::nullopt;
  const Node& node = graph.node(epilogue);
  if (node.op != Op::fused && !is_elementwise(node.op)) return std::nullopt;
  const Shape& whole = node.outputs[0].shape;
  const auto is_whole = [&](const Shape& shape) { return shape == whole && shape.elements() == gates.m * gates.units; };
  for (const Type& result : node.outputs)
    if (!is_whole(result.shape)) return std::nullopt;
  ProductGroup group{product, epilogue, {}, gates.m, gates.n, gates.gates, gates.units};
  for (const ValueId& id : node.inputs)
    group.operands.push_back({role_of(graph.type(id).shape, whole, gates.units)});
  for (const ProductGates::Read& read : gates.reads) {
    if (!is_whole(graph.type(read.value).shape)) return std::nullopt;
    group.operands[read.operand] = {Role::product, read.gate};
  }
  return group;
}

std::string ops_text(const Node& node) {
  if (node.op != Op::fused) return std::string(op_info(node.op).name);
  std::string text;
  for (const Node& inner : node.body->nodes())
    if (is_elementwise(inner.op)) text += (text.empty() ? "" : ", ") + std::string(op_info(inner.op).name);
  return text;
}

std::string operand_text(const ProductGroup::Operand& operand) {
  constexpr const char* k_names[] = {"gate ", "scalar", "bias", "value per row", "residual", "other pattern"};
  const std::string name = k_names[static_cast<std::size_t>(operand.role)];
  return operand.role == Role::product ? name + std::to_string(operand.gate) : name;
}

}  // namespace

ProductGates product_gates(const Graph& planned, std::int32_t product) {
  if (!is_product(planned, planned.node(product)))
    throw Error(ErrorKind::usage, "product_gates", "node %" + std::to_string(product) + " is no product of matrices");
  return Reads(planned, product).run();
}

std::vector<ProductGroup> product_groups(const Graph& planned) {
  std::vector<ProductGroup> groups;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(planned.nodes().size()); ++id) {
    auto group = is_product(planned, planned.node(id)) ? group_of(planned, id) : std::nullopt;
    if (!group) continue;
    const auto same = [&](const ProductGroup& other) { return other.epilogue == group->epilogue; };
    std::erase_if(groups, same);  // products come in order: this is the later one
    groups.push_back(std::move(*group));
  }
  std::sort(groups.begin(), groups.end(),
            [](const ProductGroup& a, const ProductGroup& b) { return a.epilogue < b.epilogue; });
  return groups;
}

std::string describe(const ProductGroup& group, const Graph& planned) {
  const Node& epilogue = planned.node(group.epilogue);
  const auto number = [](Index n) { return std::to_string(n); };
  std::string text = "%" + number(group.product) + " matmul [" + number(group.m) + "," + number(group.n) + "]";
  if (group.gates > 1) text += ", " + number(group.gates) + " gates of " + number(group.units) + " units";
  text += " + %" + number(group.epilogue) + " " + std::string(op_info(epilogue.op).name) + ": " + ops_text(epilogue);
  const char* before = "; ";
  for (const ProductGroup::Operand& operand : group.operands) {
    if (operand.role == Role::product && group.gates == 1) continue;
    text += before + operand_text(operand);
    before = ", ";
  }
  const DType product = planned.node(group.product).outputs[0].dtype, result = epilogue.outputs[0].dtype;
  return text + (result == product ? "" : "; to " + std::string(dtype_name(result)));
}

}  // namespace unroll
