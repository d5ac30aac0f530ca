// SPDX-License-Identifier: Apache-2.0
// Canonicalization and folding: local rules, one per op, applied to operands that are already folded.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/passes/simplify/cancel_transposes.h"
#include "core/passes/simplify/fold_constants.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Rule = Value (*)(const RewriteNode&);  // an empty Value: nothing to fold

const Type& type_of(const RewriteNode& at) { return at.node.outputs[0]; }
Value as_output(const RewriteNode& at, Value x) { return broadcast(x, type_of(at).shape); }
const Node& node_of(const Value& x) { return x.node(); }
Value operand_of(const Value& x, std::size_t i) { return x.graph().value(x.node().inputs[i]); }

// The other operand when one of a commutative pair is a splat of `neutral`.
Value drop_neutral(const RewriteNode& at, double neutral) {
  for (const int i : {0, 1})
    if (is_splat_of(at.operands[i], neutral))
      return as_output(at, at.operands[1 - i]);
  return {};
}
bool is_read_once(const Graph& graph, const ValueId& id) {
  return count_uses(graph)[id] == 1;
}
// The sum of two tables of added rows (the gradient of an embedding that is read twice) is one of all rows: it is
// written once.
Value add_scatters(const RewriteNode& at) {
  std::vector<Value> indices, updates;
  for (std::size_t i = 0; i < 2; ++i) {
    const Value& table = at.operands[i];
    if (node_of(table).op != Op::scatter_add || table.type() != type_of(at) ||
        !is_read_once(at.source, at.node.inputs[i]))
      return {};
    const std::int64_t n = operand_of(table, 0).shape().elements();
    indices.push_back(reshape(operand_of(table, 0), {n}));
    updates.push_back(reshape(operand_of(table, 1), table.shape().with(0, n)));
  }
  return scatter_add(concat(indices, 0), concat(updates, 0), type_of(at).shape[0]);
}
Value fold_add(const RewriteNode& at) {
  const Value other = drop_neutral(at, 0);
  return other ? other : add_scatters(at);
}
Value fold_mul(const RewriteNode& at) { return drop_neutral(at, 1); }
Value fold_sub(const RewriteNode& at) {
  return is_splat_of(at.operands[1], 0) ? as_output(at, at.operands[0]) : Value();
}
Value fold_div(const RewriteNode& at) {
  return is_splat_of(at.operands[1], 1) ? as_output(at, at.operands[0]) : Value();
}
Value fold_involution(const RewriteNode& at) {
  return node_of(at.operands[0]).op == at.node.op ? operand_of(at.operands[0], 0) : Value();
}
Value fold_select(const RewriteNode& at) {
  double condition = 0;
  if (is_splat(at.operands[0], condition)) return as_output(at, at.operands[condition != 0 ? 1 : 2]);
  return at.operands[1] == at.operands[2] ? as_output(at, at.operands[1]) : Value();
}
Value fold_same_type(const RewriteNode& at) { return at.operands[0].type() == type_of(at) ? at.operands[0] : Value(); }

// The reduction that gives this shape by keeping its axes, when there is one.
Value keep_reduced(Value x, const Shape& shape) {
  const Node& from = node_of(x);
  if (op_info(from.op).kind != OpKind::reduce || !from.attributes.has("axes")) return {};
  if (from.attributes.get<bool>("keep")) return {};
  Attributes attributes = from.attributes;
  attributes.set("keep", true);
  Shape kept = operand_of(x, 0).shape();
  for (const std::int64_t axis : attributes.get<Ints>("axes")) kept = kept.with(static_cast<int>(axis), 1);
  return kept == shape ? x.graph().append_one(from.op, std::vector{operand_of(x, 0)}, attributes) : Value();
}

// Rows of a slice along the last axis are slices of rows: so a reader of rows finds them where they lie.
Value reshape_below_slice(Value x, const Shape& shape) {
  const int last = x.rank() - 1;
  if (node_of(x).op != Op::slice || last < 1 || shape.rank() < 1) return {};
  if (node_of(x).attributes.get<std::int64_t>("axis") != last || shape[shape.rank() - 1] != x.shape()[last]) return {};
  const Value whole = operand_of(x, 0);
  const auto start = node_of(x).attributes.get<std::int64_t>("start");
  return slice(reshape(whole, shape.with(shape.rank() - 1, whole.shape()[last])), shape.rank() - 1, start,
               x.shape()[last]);
}

Value fold_reshape(const RewriteNode& at) {
  if (Value same = fold_same_type(at)) return same;
  const Value x = at.operands[0];
  if (node_of(x).op == Op::reshape) return reshape(operand_of(x, 0), type_of(at).shape);
  if (Value kept = keep_reduced(x, type_of(at).shape)) return kept;
  double element = 0;
  if (is_splat(x, element)) return filled(at.target, type_of(at), element);
  return reshape_below_slice(x, type_of(at).shape);
}
Value fold_broadcast(const RewriteNode& at) {
  if (Value same = fold_same_type(at)) return same;
  return node_of(at.operands[0]).op == Op::broadcast ? broadcast(operand_of(at.operands[0], 0), type_of(at).shape)
                                                     : Value();
}
Value fold_transpose(const RewriteNode& at) {
  Ints permutation = at.node.attributes.get<Ints>("permutation");
  Value x = at.operands[0];
  if (node_of(x).op == Op::transpose) {
    const Ints& inner = node_of(x).attributes.get<Ints>("permutation");
    for (std::int64_t& p : permutation) p = inner[p];
    x = operand_of(x, 0);
  }
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  Ints moved = permutation;  // axes of size 1 lie anywhere
  std::erase_if(moved, [&](std::int64_t axis) { return x.shape()[static_cast<int>(axis)] == 1; });
  if (std::is_sorted(moved.begin(), moved.end())) return reshape(x, type_of(at).shape);
  if (const Value cancelled = cancel_transposes(x, permutation)) return cancelled;
  return x == at.operands[0] ? Value() : transpose(x, std::move(permutation));
}
Value part_of(Value x, int axis, std::int64_t start, std::int64_t size) {
  return x.shape()[axis] == size ? x : slice(x, axis, start, size);
}
// A slice of a concat inside one part, or of a pad inside the padded value.
Value fold_slice(const RewriteNode& at) {
  if (Value same = fold_same_type(at)) return same;
  const Attributes& a = at.node.attributes;
  const auto axis = a.get<std::int64_t>("axis"), size = a.get<std::int64_t>("size");
  std::int64_t start = a.get<std::int64_t>("start");
  const Value x = at.operands[0];
  const Node& from = node_of(x);
  const int dim = static_cast<int>(axis);
  if (from.op == Op::slice && from.attributes.get<std::int64_t>("axis") == axis)
    return part_of(operand_of(x, 0), dim, start + from.attributes.get<std::int64_t>("start"), size);
  if (from.op == Op::concat && from.attributes.get<std::int64_t>("axis") == axis)
    for (std::size_t i = 0; i < from.inputs.size() && start >= 0; ++i) {
      const Value part = operand_of(x, i);
      if (start + size <= part.shape()[dim]) return part_of(part, dim, start, size);
      start -= part.shape()[dim];
    }
  if (from.op == Op::pad && from.attributes.get<std::int64_t>("axis") == axis) {
    const Value inner = operand_of(x, 0);
    start -= from.attributes.get<std::int64_t>("low");
    if (start >= 0 && start + size <= inner.shape()[dim]) return part_of(inner, dim, start, size);
  }
  return {};
}
// Neighboring slices of one value side by side are one slice of it.
Value fold_concat(const RewriteNode& at) {
  const auto axis = at.node.attributes.get<std::int64_t>("axis");
  if (at.operands.size() == 1) return at.operands[0];
  std::vector<Value> parts;
  Value whole;
  std::int64_t start = 0, end = 0;  // of the run of slices of `whole` so far
  const auto finish = [&] {
    if (whole) parts.push_back(part_of(whole, static_cast<int>(axis), start, end - start));
  };
  for (const Value& operand : at.operands) {
    const Node& node = node_of(operand);
    const bool sliced = node.op == Op::slice && node.attributes.get<std::int64_t>("axis") == axis;
    const std::int64_t first = sliced ? node.attributes.get<std::int64_t>("start") : 0;
    const std::int64_t size = operand.shape()[static_cast<int>(axis)];
    const Value source = sliced ? operand_of(operand, 0) : operand;
    if (sliced && whole && whole == source && first == end) {
      end += size;
      continue;
    }
    finish();
    whole = source, start = first, end = first + size;
  }
  finish();
  return parts.size() < at.operands.size() ? concat(parts, static_cast<int>(axis)) : Value();
}
// An index along the last axis is the same in every row.
Value fold_iota(const RewriteNode& at) {
  const Shape& shape = type_of(at).shape;
  const int last = shape.rank() - 1;
  if (last < 1 || at.node.attributes.get<std::int64_t>("axis") != last) return {};
  return as_output(at, iota(at.target, Shape{shape[last]}, 0));
}
Value fold_pad(const RewriteNode& at) { return fold_same_type(at); }
Value fold_reduce(const RewriteNode& at) {
  return at.node.attributes.get<Ints>("axes").empty() ? at.operands[0] : Value();
}

// A product of a transposed matrix takes the transposition into its flags.
Value fold_matmul(const RewriteNode& at) {
  if (at.operands.size() > 2) return {};  // a count of rows is one of rows as they are stored
  Transposed t{at.node.attributes.get<bool>("transpose_a"), at.node.attributes.get<bool>("transpose_b")};
  Value operands[2] = {at.operands[0], at.operands[1]};
  bool* flags[2] = {&t.a, &t.b};
  bool changed = false;
  for (int i = 0; i < 2; ++i) {
    if (node_of(operands[i]).op != Op::transpose) continue;
    const Ints& p = node_of(operands[i]).attributes.get<Ints>("permutation");
    const std::int64_t r = static_cast<std::int64_t>(p.size());
    bool swaps = p[r - 1] == r - 2 && p[r - 2] == r - 1;
    for (std::int64_t k = 0; k < r - 2; ++k) swaps &= p[k] == k;
    if (!swaps) continue;
    *flags[i] = !*flags[i];
    operands[i] = operand_of(operands[i], 0);
    changed = true;
  }
  if (!changed) return {};
  Attributes attributes = at.node.attributes;
  attributes.set("transpose_a", t.a);
  attributes.set("transpose_b", t.b);
  return at.target.append_one(Op::matmul, operands, std::move(attributes));
}

const std::map<Op, Rule>& rules() {
  static const std::map<Op, Rule> table{
      {Op::add, fold_add},           {Op::mul, fold_mul},
      {Op::sub, fold_sub},           {Op::div, fold_div},
      {Op::neg, fold_involution},    {Op::logical_not, fold_involution},
      {Op::select, fold_select},     {Op::cast, fold_same_type},
      {Op::reshape, fold_reshape},   {Op::broadcast, fold_broadcast},
      {Op::transpose, fold_transpose}, {Op::slice, fold_slice},
      {Op::pad, fold_pad},           {Op::reduce_sum, fold_reduce},
      {Op::reduce_max, fold_reduce}, {Op::matmul, fold_matmul},
      {Op::concat, fold_concat},       {Op::iota, fold_iota},
  };
  return table;
}

// Arithmetic whose result on scalars of a dtype is the correctly rounded one of a double computation.
std::optional<double> evaluate(Op op, std::span<const double> x) {
  switch (op) {
    case Op::neg: return -x[0];
    case Op::abs: return std::fabs(x[0]);
    case Op::sqrt: return std::sqrt(x[0]);
    case Op::add: return x[0] + x[1];
    case Op::sub: return x[0] - x[1];
    case Op::mul: return x[0] * x[1];
    case Op::div: return x[0] / x[1];
    default: return std::nullopt;
  }
}

// Elementwise float ops on splats.
Value fold_constants(const RewriteNode& at) {
  if (!is_float(type_of(at).dtype) || at.operands.empty() || !is_elementwise(at.node.op)) return {};
  std::vector<double> x(at.operands.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!is_splat(at.operands[i], x[i])) return {};
  const auto y = evaluate(at.node.op, x);
  return y ? filled(at.target, type_of(at), *y) : Value();
}

}  // namespace

std::shared_ptr<const Graph> fold(const Graph& graph) {
  return with_bodies(graph, [](const Graph& g) -> std::shared_ptr<const Graph> {
    const auto result = rewrite(g, [](const RewriteNode& at) -> std::vector<Value> {
      const auto rule = rules().find(at.node.op);
      Value folded = rule == rules().end() ? Value() : rule->second(at);
      if (!folded) folded = fold_constants(at);
      if (!folded) folded = fold_constant_move(at);
      return folded ? std::vector<Value>{folded} : std::vector<Value>{};
    });
    return drop_dead(*result);
  });
}

}  // namespace unroll
