// SPDX-License-Identifier: Apache-2.0
#include "backends/device/lowering.h"

#include <algorithm>
#include <tuple>

#include "backends/common/hazards.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/strided_read.h"
#include "unroll/support/error.h"

namespace unroll::device {

using common::Expression;
using common::Strides;

void refuse(const char* backend, const std::string& what) {
  throw Error(ErrorKind::unsupported, backend, what, "Use the cpu backend");
}

void require_lowered(const char* backend, const Node& node, bool runs_packed) {
  const bool is_claimed = node.attributes.get_or<bool>("claimed", false);
  if (!is_claimed && (node.op == Op::gradient || op_info(node.op).tier == OpTier::composite))
    refuse(backend, "runs primitive ops only; the plan contains " + std::string(op_info(node.op).name));
  if (node.op != Op::scan) return;
  const ScanLayout l = scan_layout(node);
  if (l.packed && !runs_packed) refuse(backend, "has no kernels for packed scans");
  if (l.has_lengths || l.has_reset) refuse(backend, "has no kernels for scans with masks: passes lower them");
}

int axis_of(const Node& node) { return static_cast<int>(node.attributes.get<std::int64_t>("axis")); }

void skip(Operand& operand, std::int64_t elements, DType dtype) {
  const std::size_t bytes = elements * dtype_bytes(dtype);
  operand.storage.offset += bytes;
  operand.bytes -= std::min(operand.bytes, bytes);
}

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

Operand Lowering::workspace(std::size_t bytes) {
  Operand operand{{Storage::Place::none, 0, workspace_bytes_, {}}, bytes, true, 4};
  workspace_bytes_ = aligned(workspace_bytes_ + std::max<std::size_t>(bytes, 1));
  return operand;
}

bool Lowering::is_stored(ValueId id) const {
  return storage(id).place != Storage::Place::none;
}

Operand Lowering::operand(ValueId id) {
  if (!is_stored(id)) {
    Operand unread = workspace(type(id).bytes());
    unread.element = dtype_bytes(type(id).dtype);
    unread.value = id;
    return unread;
  }
  const Storage& storage = this->storage(id);
  std::size_t bytes = type(id).bytes();
  if (!storage.strides.empty() && bytes > 0) {
    std::int64_t last = 0;
    for (int axis = 0; axis < type(id).shape.rank(); ++axis)
      last += storage.strides[axis] * (type(id).shape[axis] - 1);
    bytes = (last + 1) * dtype_bytes(type(id).dtype);
  }
  return {.storage = storage, .bytes = bytes, .element = dtype_bytes(type(id).dtype), .value = id};
}

Strides Lowering::strides(ValueId id, const Shape& shape) const {
  const Shape& own = type(id).shape;
  const Ints at = common::strides_of(plan_, id);
  Strides out{};
  for (int axis = 0, shift = shape.rank() - own.rank(); axis < own.rank(); ++axis)
    if (own[axis] != 1) out[axis + shift] = at[axis];
  return out;
}

void Lowering::keep_results(std::int32_t id, Expression& e, Operands& operands) {
  std::vector<Expression::Result> kept;
  for (std::size_t k = 0; k < e.results.size(); ++k) {
    const ValueId result{id, static_cast<std::int32_t>(k)};
    if (!is_stored(result)) continue;
    kept.push_back(e.results[k]);
    kept.back().strides = strides(result, e.shape);
    operands.push_back(operand(result));
  }
  e.results = std::move(kept);
}

void Lowering::add_parts(const std::vector<JoinedConcat>& concats, std::int32_t id,
                         const std::function<std::uint16_t(std::int32_t)>& register_of, Expression& e,
                         Operands& operands) {
  for (const JoinedConcat& each : concats) {
    if (each.node != id) continue;
    const ValueId whole{each.concat, 0};
    const std::int64_t step = common::strides_of(plan_, whole)[axis_of(graph().node(each.concat))];
    for (const JoinedConcat::Part& part : each.parts) {
      e.results.push_back({register_of(part.output), strides(whole, e.shape)});
      operands.push_back(operand(whole));
      skip(operands.back(), part.first * step, type(whole).dtype);
    }
  }
}

Expression Lowering::node_expression(std::int32_t id, Operands& operands) {
  const Node& node = graph().node(id);
  Expression e = node.op == Op::fused_reduction ? common::expression_of_rows(node)
                 : node.op == Op::fused         ? common::expression_of_body(*node.body)
                                                : common::expression_of_node(graph(), node);
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    e.inputs[k].strides = e.inputs[k].is_key ? Strides{} : strides(node.inputs[k], e.shape);
    operands.push_back(operand(node.inputs[k]));
  }
  std::vector<int> no_gates;
  const std::vector<Passed> passed = pass_through(id, e, operands, no_gates);
  keep_results(id, e, operands);
  add_ahead(id, e, operands);
  store_passed(passed, e, operands);
  return e;
}

void Lowering::move(DType dtype, const Shape& shape, const Side& from, const Side& to) {
  Expression e;
  e.shape = shape;
  e.inputs.push_back({dtype, from.strides});
  e.results.push_back({0, to.strides});
  Operands operands{from.operand, to.operand};
  const Side* const sides[] = {&from, &to};
  for (std::size_t k = 0; k < 2; ++k) skip(operands[k], sides[k]->offset, dtype);
  expression(std::move(e), std::move(operands));
}

void Lowering::fill_zero(DType dtype, const Shape& shape, const Side& to) {
  Expression e;
  e.shape = shape;
  e.constants.emplace_back(dtype, 0);
  e.results.push_back({0, to.strides});
  Operands operands{to.operand};
  skip(operands[0], to.offset, dtype);
  expression(std::move(e), std::move(operands));
}

void Lowering::move_node(std::int32_t id) {
  const Node& node = graph().node(id);
  const ValueId in = node.inputs[0], out{id, 0};
  const Shape &x = type(in).shape, &y = type(out).shape;
  Side from{operand(in), 0, strides(in, x)}, to{operand(out), 0, strides(out, y)};
  const auto read = strided_read(node, x, from.strides);
  if (read) {
    from.offset = read->start;
    from.strides = {};
    std::ranges::copy(read->strides, from.strides.begin());
  } else {
    to.strides = common::dense_strides(x);  // in row-major order of the operand, to a dense result
  }
  move(type(in).dtype, read ? y : x, from, to);
}

void Lowering::concat(std::int32_t id) {
  const Node& node = graph().node(id);
  const ValueId out{id, 0};
  const Ints whole = common::strides_of(plan_, out);
  const int axis = axis_of(node);
  std::int64_t at = 0;
  for (const ValueId in : node.inputs) {
    const Shape& shape = type(in).shape;
    const Side from{operand(in), 0, strides(in, shape)};
    const Side to{operand(out), at * whole[axis], strides(out, shape)};
    at += shape[axis];
    const Storage &a = from.operand.storage, &b = to.operand.storage;
    bool there = a.place == b.place && a.index == b.index &&
                 a.offset == b.offset + to.offset * dtype_bytes(type(in).dtype);
    for (int k = 0; k < shape.rank(); ++k)  // of size 1: any stride will do
      there = there && (shape[k] == 1 || from.strides[k] == to.strides[k]);
    if (!there) move(type(in).dtype, shape, from, to);
  }
}

void Lowering::pad(std::int32_t id) {
  const Node& node = graph().node(id);
  const ValueId in = node.inputs[0], out{id, 0};
  const int axis = axis_of(node);
  const Shape &x = type(in).shape, &y = type(out).shape;
  const std::int64_t low = node.attributes.get<std::int64_t>("low"), high = y[axis] - low - x[axis];
  const std::int64_t stride = common::strides_of(plan_, out)[axis];
  const Side to{operand(out), 0, strides(out, y)};
  const auto part = [&](std::int64_t start) { return Side{to.operand, start * stride, to.strides}; };
  if (low > 0) fill_zero(type(in).dtype, y.with(axis, low), part(0));
  if (high > 0) fill_zero(type(in).dtype, y.with(axis, high), part(low + x[axis]));
  move(type(in).dtype, x, {operand(in), 0, strides(in, x)}, part(low));
}

ProductShape Lowering::product_shape(const Node& node, ValueId c) const {
  const ValueId ia = node.inputs[0], ib = node.inputs[1];
  const bool ta = node.attributes.get_or<bool>("transpose_a", false);
  const bool tb = node.attributes.get_or<bool>("transpose_b", false);
  const Shape &sa = type(ia).shape, &sc = type(c).shape;
  const auto matrix = [&](ValueId id, bool transposed) {
    const Ints s = common::strides_of(plan_, id);
    const std::int64_t row = s[s.size() - 2], column = s[s.size() - 1];
    return transposed ? std::pair(column, row) : std::pair(row, column);
  };
  ProductShape shape{};
  shape.k = ta ? sa[sa.rank() - 2] : sa[sa.rank() - 1];
  shape.m = sc[sc.rank() - 2];
  shape.n = sc[sc.rank() - 1];
  std::tie(shape.a_row, shape.a_column) = matrix(ia, ta);
  std::tie(shape.b_row, shape.b_column) = matrix(ib, tb);
  shape.c_row = matrix(c, false).first;
  shape.has_rows = node.inputs.size() > 2;
  // Leading axes, read with the strides of the result's shape.
  std::vector<std::int64_t> leading;
  const auto leading_strides = [&](ValueId id) {
    const Shape& s = type(id).shape;
    const Ints own = common::strides_of(plan_, id);
    std::vector<std::int64_t> out(sc.rank() - 2, 0);
    for (int axis = 0, shift = sc.rank() - s.rank(); axis < s.rank() - 2; ++axis)
      if (s[axis] != 1) out[axis + shift] = own[axis];
    return out;
  };
  for (int axis = 0; axis < sc.rank() - 2; ++axis) leading.push_back(sc[axis]);
  Axes axes = joined_axes(leading, {leading_strides(ia), leading_strides(ib), leading_strides(c)});
  // A matrix b for all: the last leading axis becomes more rows, where a and c lie so.
  while (!axes.sizes.empty() && !shape.has_rows && axes.strides[1].back() == 0 &&
         axes.strides[0].back() == shape.m * shape.a_row && axes.strides[2].back() == shape.m * shape.c_row) {
    shape.m *= axes.sizes.back();
    axes.sizes.pop_back();
    for (auto& strides : axes.strides) strides.pop_back();
  }
  shape.matrices = std::move(axes);
  return shape;
}

ReductionShape Lowering::reduction_shape(const Node& node) const {
  const ValueId in = node.inputs[0];
  const Type& x = type(in);
  const Ints reduced_axes = node.op == Op::argmax ? Ints{axis_of(node)} : node.attributes.get<Ints>("axes");
  const Ints own = common::strides_of(plan_, in);
  std::vector<std::int64_t> sizes[2], walks[2];  // kept, reduced
  ReductionShape shape{1, 1, {}, {}};
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const bool reduced = std::find(reduced_axes.begin(), reduced_axes.end(), axis) != reduced_axes.end();
    sizes[reduced].push_back(x.shape[axis]);
    walks[reduced].push_back(own[axis]);
    (reduced ? shape.total : shape.outputs) *= x.shape[axis];
  }
  shape.kept = joined_axes(sizes[0], {walks[0]});
  shape.reduced = joined_axes(sizes[1], {walks[1]});
  return shape;
}

}  // namespace unroll::device
