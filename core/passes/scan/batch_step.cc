// SPDX-License-Identifier: Apache-2.0
#include "core/passes/scan/batch_step.h"

#include <algorithm>

#include "unroll/ir/ops.h"

namespace unroll {

namespace {

struct At {
  Graph& target;
  const Node& node;
  std::span<const Batched> operands;
  std::int64_t steps;

  const Attributes& attributes() const { return node.attributes; }
  // Shape of operand i inside the loop.
  Shape inner(std::size_t i) const {
    const Shape& shape = operands[i].value.shape();
    return operands[i].stacked ? shape.removed(0) : shape;
  }
  // Operand i as [T, ...] whatever it was.
  Value stacked(std::size_t i) const {
    const Batched& x = operands[i];
    return x.stacked ? x.value : broadcast(x.value, x.value.shape().inserted(0, steps));
  }
  Shape result() const { return node.outputs[0].shape.inserted(0, steps); }
};

// Broadcasting aligns dimensions at the right, so a stacked operand of lower rank gets ones after its time axis.
Value aligned(const At& at, std::size_t i) {
  Value x = at.operands[i].value;
  if (!at.operands[i].stacked) return x;
  for (int r = x.rank() - 1; r < at.node.outputs[0].shape.rank(); ++r) x = reshape(x, x.shape().inserted(1, 1));
  return x;
}

Value elementwise(const At& at) {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < at.operands.size(); ++i) operands.push_back(aligned(at, i));
  return at.target.append_one(at.node.op, operands, at.attributes());
}

Value move(const At& at) {
  const auto axis = [&] { return static_cast<int>(at.attributes().get<std::int64_t>("axis")) + 1; };
  const Value x = at.stacked(0);
  switch (at.node.op) {
    case Op::reshape: return reshape(x, at.result());
    case Op::broadcast: return broadcast(aligned(at, 0), at.result());
    case Op::slice:
      return slice(x, axis(), at.attributes().get<std::int64_t>("start"), at.attributes().get<std::int64_t>("size"));
    case Op::pad:
      return pad(x, axis(), at.attributes().get<std::int64_t>("low"), at.attributes().get<std::int64_t>("high"));
    case Op::windows:
      return windows(x, axis(), at.attributes().get<std::int64_t>("size"), at.attributes().get<std::int64_t>("stride"),
                     at.attributes().get<std::int64_t>("dilation"));
    case Op::transpose: {
      Ints permutation{0};
      for (const std::int64_t p : at.attributes().get<Ints>("permutation")) permutation.push_back(p + 1);
      return transpose(x, std::move(permutation));
    }
    default: {  // concat
      std::vector<Value> parts;
      for (std::size_t i = 0; i < at.operands.size(); ++i) parts.push_back(at.stacked(i));
      return concat(parts, axis());
    }
  }
}

Value product(const At& at) {
  const Transposed t{at.attributes().get<bool>("transpose_a"), at.attributes().get<bool>("transpose_b")};
  const Shape a = at.inner(0);
  if (a.rank() == 2 && !t.a && at.operands[0].stacked &&
      !at.operands[1].stacked) {  // rows of all steps below each other
    const Value rows = reshape(at.operands[0].value, Shape{at.steps * a[0], a[1]});
    return reshape(matmul(rows, at.operands[1].value, t), at.result());
  }
  return matmul(at.stacked(0), at.stacked(1), t);
}

Value reduction(const At& at) {
  if (at.node.op == Op::argmax)
    return argmax(at.stacked(0), static_cast<int>(at.attributes().get<std::int64_t>("axis")) + 1);
  Attributes attributes = at.attributes();
  Ints axes = attributes.get<Ints>("axes");
  for (std::int64_t& axis : axes) ++axis;
  attributes.set("axes", std::move(axes));
  return at.target.append_one(at.node.op, std::vector{at.stacked(0)}, std::move(attributes));
}

}  // namespace

std::optional<Value> batch_step(Graph& target, const Node& node, std::span<const Batched> operands,
                                std::int64_t steps) {
  const At at{target, node, operands, steps};
  if (node.outputs.size() != 1 || node.outputs[0].shape.rank() == Shape::k_max_rank) return std::nullopt;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (at.inner(i).rank() == Shape::k_max_rank) return std::nullopt;
  if (is_elementwise(node.op)) return elementwise(at);
  switch (op_info(node.op).kind) {
    case OpKind::move: return move(at);
    case OpKind::matmul: return product(at);
    case OpKind::reduce: return reduction(at);
    case OpKind::index:
      if (node.op == Op::gather && !operands[0].stacked) return gather(operands[0].value, operands[1].value);
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace unroll
