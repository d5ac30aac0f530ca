// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/common/walk.h"
#include "backends/vulkan/program.h"
#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll::vulkan {

namespace {

using common::Expression;
using common::Strides;

std::uint32_t word(std::int64_t n) { return static_cast<std::uint32_t>(n); }

// Axes with their strides in one or more operands; neighbors that every operand walks as one are joined.
struct Axes {
  std::vector<std::uint32_t> sizes;
  std::vector<std::vector<std::uint32_t>> strides;  // [operand][axis]
};
Axes joined(const std::vector<std::int64_t>& sizes, const std::vector<std::vector<std::int64_t>>& strides) {
  Axes out;
  out.strides.resize(strides.size());
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 1) continue;
    bool joins = !out.sizes.empty();
    for (std::size_t k = 0; joins && k < strides.size(); ++k)
      joins = out.strides[k].back() == strides[k][axis] * sizes[axis];
    if (joins) {
      out.sizes.back() *= word(sizes[axis]);
      for (std::size_t k = 0; k < strides.size(); ++k) out.strides[k].back() = word(strides[k][axis]);
    } else {
      out.sizes.push_back(word(sizes[axis]));
      for (std::size_t k = 0; k < strides.size(); ++k) out.strides[k].push_back(word(strides[k][axis]));
    }
  }
  return out;
}

// The operand without its first elements.
void skip(Operand& operand, std::int64_t elements, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * dtype_bytes(dtype);
  operand.storage.offset += bytes;
  operand.bytes -= std::min(operand.bytes, bytes);
}

int axis_of(const Node& node) { return static_cast<int>(node.attributes.get<std::int64_t>("axis")); }

}  // namespace

void NodeCompiler::compile(NodeWork& work) {
  const Node& node = graph().node(work.node);
  if (is_elementwise(node.op) || node.op == Op::fused) return elementwise(work, node);
  switch (node.op) {
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::broadcast: return move_node(work, node);
    case Op::concat: return concat(work, node);
    case Op::pad: return pad(work, node);
    case Op::matmul: return matmul(work, node);
    case Op::reduce_sum:
    case Op::reduce_max:
    case Op::argmax: return reduce(work, node);
    case Op::gather: return gather(work, node);
    case Op::scatter_add: return scatter_add(work, node);
    case Op::iota: return iota(work, node);
    case Op::random_uniform: return random_uniform(work, node);
    case Op::pack_lengths: return pack_lengths(work, node);
    default:
      throw Error(ErrorKind::unsupported, "vulkan", "has no kernel for " + std::string(op_info(node.op).name),
                  "Use the cpu backend");
  }
}

void NodeCompiler::expression(NodeWork& work, Expression e, Operands operands) {
  if (e.shape.elements() == 0) return;
  const Expression simple = common::simplified(e);
  add(work, expression_key(simple), std::move(operands), expression_params(simple),
      static_cast<std::uint64_t>(simple.shape.elements()),
      [&] { return expression_shader(simple, context_.setting()); });
}

void NodeCompiler::elementwise(NodeWork& work, const Node& node) {
  Expression e =
      node.op == Op::fused ? common::expression_of_body(*node.body) : common::expression_of_node(graph(), node);
  Operands operands;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    e.inputs[k].strides = strides(node.inputs[k], e.shape);
    operands.push_back(operand(node.inputs[k]));
  }
  std::vector<Expression::Result> kept;
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId id{work.node, static_cast<std::int32_t>(k)};
    if (!is_stored(id)) continue;
    kept.push_back(e.results[k]);
    kept.back().strides = strides(id, e.shape);
    operands.push_back(operand(id));
  }
  e.results = std::move(kept);
  expression(work, std::move(e), std::move(operands));
}

void NodeCompiler::move(NodeWork& work, DType dtype, const Shape& shape, const Side& from, const Side& to) {
  Expression e;
  e.shape = shape;
  e.inputs.push_back({dtype, from.strides});
  e.results.push_back({0, to.strides});
  Operands operands{from.operand, to.operand};
  const Side* const sides[] = {&from, &to};
  for (std::size_t k = 0; k < 2; ++k) skip(operands[k], sides[k]->offset, dtype);
  expression(work, std::move(e), std::move(operands));
}

void NodeCompiler::fill_zero(NodeWork& work, DType dtype, const Shape& shape, const Side& to) {
  Expression e;
  e.shape = shape;
  e.constants.emplace_back(dtype, 0);
  e.results.push_back({0, to.strides});
  Operands operands{to.operand};
  skip(operands[0], to.offset, dtype);
  expression(work, std::move(e), std::move(operands));
}

void NodeCompiler::move_node(NodeWork& work, const Node& node) {
  const ValueId in = node.inputs[0], out{work.node, 0};
  const Shape &x = type(in).shape, &y = type(out).shape;
  Side from{operand(in)}, to{operand(out), 0, strides(out, y)};
  switch (node.op) {
    case Op::reshape:
      // Both are dense, or the passes would not have made a copy of it: in row-major order of the operand.
      from.strides = strides(in, x);
      to.strides = common::dense_strides(x);
      break;
    case Op::transpose: {
      const Ints own = common::strides_of(plan_, in), permutation = node.attributes.get<Ints>("permutation");
      for (std::size_t axis = 0; axis < permutation.size(); ++axis)
        from.strides[axis] = own[static_cast<std::size_t>(permutation[axis])];
      break;
    }
    case Op::slice:
      from.strides = strides(in, y);
      from.offset = node.attributes.get<std::int64_t>("start") *
                    common::strides_of(plan_, in)[static_cast<std::size_t>(axis_of(node))];
      break;
    default: from.strides = strides(in, y);
  }
  move(work, type(in).dtype, node.op == Op::reshape ? x : y, from, to);
}

void NodeCompiler::concat(NodeWork& work, const Node& node) {
  const ValueId out{work.node, 0};
  const Ints whole = common::strides_of(plan_, out);
  const auto axis = static_cast<std::size_t>(axis_of(node));
  std::int64_t at = 0;
  for (const ValueId in : node.inputs) {
    const Shape& shape = type(in).shape;
    const Side from{operand(in), 0, strides(in, shape)};
    const Side to{operand(out), at * whole[axis], strides(out, shape)};
    at += shape[static_cast<int>(axis)];
    const Storage &a = from.operand.storage, &b = to.operand.storage;
    bool there = a.place == b.place && a.index == b.index &&
                 a.offset == b.offset + static_cast<std::size_t>(to.offset) * dtype_bytes(type(in).dtype);
    for (std::size_t k = 0; k < static_cast<std::size_t>(shape.rank()); ++k)  // of size 1: any stride will do
      there = there && (shape[static_cast<int>(k)] == 1 || from.strides[k] == to.strides[k]);
    if (!there) move(work, type(in).dtype, shape, from, to);
  }
}

void NodeCompiler::pad(NodeWork& work, const Node& node) {
  const ValueId in = node.inputs[0], out{work.node, 0};
  const int axis = axis_of(node);
  const Shape &x = type(in).shape, &y = type(out).shape;
  const std::int64_t low = node.attributes.get<std::int64_t>("low"), high = y[axis] - low - x[axis];
  const std::int64_t stride = common::strides_of(plan_, out)[static_cast<std::size_t>(axis)];
  const Side to{operand(out), 0, strides(out, y)};
  const auto part = [&](std::int64_t start) { return Side{to.operand, start * stride, to.strides}; };
  if (low > 0) fill_zero(work, type(in).dtype, y.with(axis, low), part(0));
  if (high > 0) fill_zero(work, type(in).dtype, y.with(axis, high), part(low + x[axis]));
  move(work, type(in).dtype, x, {operand(in), 0, strides(in, x)}, part(low));
}

void NodeCompiler::matmul(NodeWork& work, const Node& node) {
  const ValueId ia = node.inputs[0], ib = node.inputs[1], ic{work.node, 0};
  const bool ta = node.attributes.get_or<bool>("transpose_a", false);
  const bool tb = node.attributes.get_or<bool>("transpose_b", false);
  const Shape &sa = type(ia).shape, &sc = type(ic).shape;
  if (sc.elements() == 0) return;
  const auto matrix = [&](ValueId id, bool transposed) {
    const Ints s = common::strides_of(plan_, id);
    const std::uint32_t row = word(s[s.size() - 2]), column = word(s[s.size() - 1]);
    return transposed ? std::pair(column, row) : std::pair(row, column);
  };
  const std::int64_t k = ta ? sa[sa.rank() - 2] : sa[sa.rank() - 1];
  ProductSizes sizes{};
  sizes.m = word(sc[sc.rank() - 2]);
  sizes.n = word(sc[sc.rank() - 1]);
  std::tie(sizes.a_row, sizes.a_column) = matrix(ia, ta);
  std::tie(sizes.b_row, sizes.b_column) = matrix(ib, tb);
  sizes.c_row = matrix(ic, false).first;
  // Leading axes, read with the strides of the result's shape.
  std::vector<std::int64_t> leading;
  std::vector<std::vector<std::int64_t>> walks(3);
  const auto leading_strides = [&](ValueId id) {
    const Shape& s = type(id).shape;
    const Ints own = common::strides_of(plan_, id);
    std::vector<std::int64_t> out(static_cast<std::size_t>(sc.rank() - 2), 0);
    for (int axis = 0, shift = sc.rank() - s.rank(); axis < s.rank() - 2; ++axis)
      if (s[axis] != 1) out[static_cast<std::size_t>(axis + shift)] = own[static_cast<std::size_t>(axis)];
    return out;
  };
  for (int axis = 0; axis < sc.rank() - 2; ++axis) leading.push_back(sc[axis]);
  walks = {leading_strides(ia), leading_strides(ib), leading_strides(ic)};
  const Axes axes = joined(leading, walks);
  sizes.sizes = axes.sizes;
  sizes.a = axes.strides[0], sizes.b = axes.strides[1], sizes.c = axes.strides[2];

  Product product{static_cast<int>(axes.sizes.size()), node.inputs.size() > 2, ta};
  const Setting setting = context_.setting();
  const std::uint64_t tile = product_tile(setting);
  std::uint64_t groups = (sizes.m + tile - 1) / tile * ((sizes.n + tile - 1) / tile);
  for (const std::uint32_t size : axes.sizes) groups *= size;
  const std::string key = "m" + std::to_string(product.batch_rank) + (product.has_rows ? (ta ? "k" : "m") : "");
  // Parts of k within the iterations that the device allows, one after the other.
  const std::int64_t most = std::int64_t{context_.device.limits().iterations} * static_cast<std::int64_t>(tile);
  for (std::int64_t begin = 0; begin == 0 || begin < k; begin += most) {
    sizes.k_begin = word(begin);
    sizes.k_end = word(std::min(k, begin + most));
    sizes.accumulates = begin > 0;
    Operands operands{operand(ia), operand(ib), operand(ic)};
    if (product.has_rows) operands.push_back(operand(node.inputs[2]));
    const std::uint32_t local = product_invocations(setting);
    add(work, key, std::move(operands), product_params(sizes), groups * local,
        [&] { return product_shader(product, setting); }, local)
        .follows = begin > 0;
  }
}

void NodeCompiler::reduce(NodeWork& work, const Node& node) {
  const ValueId in = node.inputs[0], out{work.node, 0};
  const Type &x = type(in), &y = type(out);
  const Reduction kind = node.op == Op::reduce_sum   ? Reduction::sum
                         : node.op == Op::reduce_max ? Reduction::max
                                                     : Reduction::argmax;
  const Ints reduced_axes = kind == Reduction::argmax ? Ints{axis_of(node)} : node.attributes.get<Ints>("axes");
  const Ints own = common::strides_of(plan_, in);
  std::vector<std::int64_t> sizes[2];
  std::vector<std::int64_t> walks[2];  // kept, reduced
  std::int64_t total = 1;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const bool reduced = std::find(reduced_axes.begin(), reduced_axes.end(), axis) != reduced_axes.end();
    sizes[reduced].push_back(x.shape[axis]);
    walks[reduced].push_back(own[static_cast<std::size_t>(axis)]);
    if (reduced) total *= x.shape[axis];
  }
  if (y.shape.elements() == 0) return;
  const Axes kept = joined(sizes[0], {walks[0]}), reduced = joined(sizes[1], {walks[1]});
  // Sums over more elements than this are made of partial sums, level by level: a fixed tree.
  constexpr std::int64_t k_longest = 256;
  const std::int64_t most = std::min<std::int64_t>(k_longest, context_.device.limits().iterations);
  if (kind == Reduction::argmax) require_iterations(node, total, "elements");
  ReductionSizes s{word(y.shape.elements()), 1, word(total), word(total), kept.sizes, kept.strides[0],
                   reduced.sizes, reduced.strides[0]};
  Operand from = operand(in);
  bool follows = false;
  while (kind != Reduction::argmax && s.total > most) {
    s.length = word(most);
    s.chunks = (s.total + s.length - 1) / s.length;
    const Operand part = workspace(std::size_t{s.outputs} * s.chunks * dtype_bytes(x.dtype));
    add(work, reduction_key(kind, x.dtype, s), {from, part}, reduction_params(s), std::uint64_t{s.outputs} * s.chunks,
        [&] { return reduction_shader(kind, x.dtype, s.kept.size(), s.reduced.size(), context_.setting()); })
        .follows = follows;
    follows = true;
    from = part;
    const std::uint32_t chunks = s.chunks;
    s = {s.outputs, 1, chunks, chunks, {s.outputs}, {chunks}, {chunks}, {1}};
  }
  add(work, reduction_key(kind, x.dtype, s), {from, operand(out)}, reduction_params(s), s.outputs,
      [&] { return reduction_shader(kind, x.dtype, s.kept.size(), s.reduced.size(), context_.setting()); })
      .follows = follows;
}

}  // namespace unroll::vulkan
