// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/common/walk.h"
#include "backends/vulkan/program/program.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

using common::Expression;

constexpr std::int64_t k_longest = 256;  // sums of an invocation

}  // namespace

void NodeCompiler::expression(Expression e, Operands operands) {
  expression(*work_, std::move(e), std::move(operands));
}

void NodeCompiler::compile(NodeWork& work) {
  work_ = &work;
  const Node& node = graph().node(work.node);
  if (device::is_pointwise(node)) return elementwise(work);
  switch (node.op) {
    case Op::fused_reduction: return fused_reduction(work, node);
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::broadcast:
    case Op::windows: return move_node(work.node);
    case Op::concat: return concat(work.node);
    case Op::pad: return pad(work.node);
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

void NodeCompiler::reduce(NodeWork& work, const Node& node) {
  const ValueId in = node.inputs[0], out{work.node, 0};
  const Type &x = type(in), &y = type(out);
  const Reduction kind = node.op == Op::reduce_sum   ? Reduction::sum
                         : node.op == Op::reduce_max ? Reduction::max
                                                     : Reduction::argmax;
  if (y.shape.elements() == 0) return;
  const device::ReductionShape shape = reduction_shape(node);
  ReductionSizes s{word(shape.outputs), 1, word(shape.total), word(shape.total), words(shape.kept.sizes),
                   words(shape.kept.strides[0]), words(shape.reduced.sizes), words(shape.reduced.strides[0])};
  if (kind != Reduction::argmax) return add_reduction(work, kind, x.dtype, s, operand(in), operand(out), false);
  const std::uint32_t most = context_.device.limits().iterations;
  do {
    s.length = std::min(s.total - s.first, most);
    add_reduction(work, kind, x.dtype, s, operand(in), operand(out), s.first > 0);
    s.first += s.length;
  } while (s.first < s.total);
}

// Sums over more elements than k_longest are made of partial sums, level by level: a fixed tree.
void NodeCompiler::add_reduction(NodeWork& work, Reduction kind, DType dtype, ReductionSizes s, Operand from,
                                 const Operand& to, bool follows) {
  const std::int64_t most = std::min<std::int64_t>(k_longest, context_.device.limits().iterations);
  while (kind != Reduction::argmax && s.total > most) {
    s.length = word(most);
    s.chunks = (s.total + s.length - 1) / s.length;
    const Operand part = workspace(std::size_t{s.outputs} * s.chunks * dtype_bytes(arithmetic_dtype(dtype)));
    add(work, reduction_key(kind, dtype, s), {from, part}, reduction_params(s), std::uint64_t{s.outputs} * s.chunks,
        [&] { return reduction_shader(kind, dtype, s.kept.size(), s.reduced.size(), setting()); })
        .follows = follows;
    follows = true;
    from = part;
    dtype = arithmetic_dtype(dtype);  // of the sums so far
    const std::uint32_t chunks = s.chunks;
    s = {s.outputs, 1, chunks, chunks, {s.outputs}, {chunks}, {chunks}, {1}};
  }
  add(work, reduction_key(kind, dtype, s), {from, to}, reduction_params(s), s.outputs,
      [&] { return reduction_shader(kind, dtype, s.kept.size(), s.reduced.size(), setting()); })
      .follows = follows;
}

}  // namespace unroll::vulkan
