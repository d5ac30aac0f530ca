// SPDX-License-Identifier: Apache-2.0
#include "unroll/product_groups.h"

#include <algorithm>
#include <optional>

#include "core/passes/rewrite.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

using Role = ProductGroup::Role;

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), uses_(count_uses(graph)) {}

  std::optional<ProductGroup> group_of(std::int32_t epilogue) const {
    const Node& node = graph_.node(epilogue);
    if (node.op != Op::fused && !is_elementwise(node.op)) return std::nullopt;
    std::optional<ProductGroup> found;
    for (const ValueId& operand : node.inputs)
      if (const auto product = product_behind(operand); product && (!found || *product > found->product))
        found = group_of(*product, epilogue, operand);
    return found;
  }

 private:
  const Type& type(const ValueId& id) const { return graph_.type(id); }
  bool is_read_once(const ValueId& id) const {
    return uses_[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)] == 1;
  }

  // The product that `operand` is, maybe in another shape, if nothing else reads it.
  std::optional<std::int32_t> product_behind(ValueId operand) const {
    while (is_read_once(operand) && graph_.node(operand.node).op == Op::reshape)
      operand = graph_.node(operand.node).inputs[0];
    const Node& node = graph_.node(operand.node);
    const bool single = node.op == Op::matmul && type(node.inputs[1]).shape.rank() == 2;
    return single && is_read_once(operand) ? std::optional(operand.node) : std::nullopt;
  }

  std::optional<ProductGroup> group_of(std::int32_t product, std::int32_t epilogue, const ValueId& operand) const {
    const Node& node = graph_.node(epilogue);
    const Shape& made = graph_.node(product).outputs[0].shape;
    ProductGroup group{product, epilogue, {}, 0, made[made.rank() - 1]};
    if (made.elements() == 0) return std::nullopt;
    group.m = made.elements() / group.n;
    for (const Type& result : node.outputs)
      if (result.shape != type(operand).shape) return std::nullopt;
    for (const ValueId& id : node.inputs)
      group.roles.push_back(id == operand ? Role::product : role_of(type(id).shape, type(operand).shape, group));
    return group;
  }

  // `whole`: of the epilogue, M * N elements.
  static Role role_of(const Shape& operand, const Shape& whole, const ProductGroup& group) {
    if (operand.elements() == 1) return Role::scalar;
    if (operand == whole) return Role::residual;
    // Axes of the operand that repeat: all but the last ones for a bias, the last ones for a row. Where the axes of
    // `whole` end in N is found from behind.
    std::int64_t columns = 1;
    int first = whole.rank();  // axes [first, rank) are the columns
    while (first > 0 && columns < group.n) columns *= whole[--first];
    if (columns != group.n) return Role::other;
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

  const Graph& graph_;
  const std::vector<std::vector<int>> uses_;
};

std::string ops_text(const Node& node) {
  if (node.op != Op::fused) return std::string(op_info(node.op).name);
  std::string text;
  for (const Node& inner : node.body->nodes())
    if (is_elementwise(inner.op)) text += (text.empty() ? "" : ", ") + std::string(op_info(inner.op).name);
  return text;
}

}  // namespace

std::vector<ProductGroup> product_groups(const Graph& planned) {
  const Finder finder(planned);
  std::vector<ProductGroup> groups;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(planned.nodes().size()); ++id)
    if (auto group = finder.group_of(id)) groups.push_back(std::move(*group));
  return groups;
}

std::string describe(const ProductGroup& group, const Graph& planned) {
  constexpr const char* k_names[] = {"", "scalar", "bias", "value per row", "residual", "other pattern"};
  const Node& epilogue = planned.node(group.epilogue);
  std::string text = "%" + std::to_string(group.product) + " matmul [" + std::to_string(group.m) + "," +
                     std::to_string(group.n) + "] + %" + std::to_string(group.epilogue) + " " +
                     std::string(op_info(epilogue.op).name) + ": " + ops_text(epilogue);
  const char* before = "; ";
  for (const Role role : group.roles) {
    if (role == Role::product) continue;
    text += before + std::string(k_names[static_cast<std::size_t>(role)]);
    before = ", ";
  }
  const DType product = planned.node(group.product).outputs[0].dtype, result = epilogue.outputs[0].dtype;
  return text + (result == product ? "" : "; to " + std::string(dtype_name(result)));
}

}  // namespace unroll
