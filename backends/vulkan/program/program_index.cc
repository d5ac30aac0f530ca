// SPDX-License-Identifier: Apache-2.0
// The dispatches of ops that index, count and draw.
#include <algorithm>

#include "backends/vulkan/program/program.h"
#include "unroll/ir/ops.h"

namespace unroll::vulkan {

namespace {

std::int64_t row_size(const Shape& shape) {
  std::int64_t size = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) size *= shape[axis];
  return size;
}

}  // namespace

void NodeCompiler::gather(NodeWork& work, const Node& node) {
  const Type &table = type(node.inputs[0]), &out = node.outputs[0];
  if (out.shape.elements() == 0) return;
  add(work, "g" + std::to_string(static_cast<int>(out.dtype)),
      {operand(node.inputs[0]), operand(node.inputs[1]), operand({work.node, 0})},
      {word(out.shape.elements()), word(table.shape[0]), word(row_size(table.shape))},
      static_cast<std::uint64_t>(out.shape.elements()), [&] { return gather_shader(out.dtype, setting()); });
}

void NodeCompiler::scatter_add(NodeWork& work, const Node& node) {
  const Type& out = node.outputs[0];
  const std::int64_t n = type(node.inputs[0]).shape.elements();
  if (out.shape.elements() == 0) return;
  const std::int64_t most = context_.device.limits().iterations;
  if (n > 0 && n <= most && n <= out.shape.elements()) return linked_scatter(work, node);
  for (std::int64_t begin = 0; begin == 0 || begin < n; begin += most)
    add(work, "s" + std::to_string(static_cast<int>(out.dtype)),
        {operand(node.inputs[0]), operand(node.inputs[1]), operand({work.node, 0})},
        {word(out.shape.elements()), word(row_size(out.shape)), word(begin), word(std::min(n, begin + most)),
         word(begin > 0)},
        static_cast<std::uint64_t>(out.shape.elements()), [&] { return scatter_shader(out.dtype, setting()); })
        .follows = begin > 0;
}

// Links take a comparison of each update with others, at most n * n; otherwise every element compares all of them.
void NodeCompiler::linked_scatter(NodeWork& work, const Node& node) {
  const Type& out = node.outputs[0];
  const std::int64_t n = type(node.inputs[0]).shape.elements(), size = row_size(out.shape);
  const Operand indices = operand(node.inputs[0]), to = operand({work.node, 0});
  const Operand links = workspace(2 * n * sizeof(std::uint32_t));
  fill_zero(out.dtype, out.shape, {to, 0, common::dense_strides(out.shape)});
  add(work, "sl", {indices, links}, {word(n)}, static_cast<std::uint64_t>(n),
      [&] { return links_shader(setting()); });
  add(work, "ss" + std::to_string(static_cast<int>(out.dtype)), {indices, operand(node.inputs[1]), links, to},
      {word(n * size), word(n), word(out.shape[0]), word(size)}, static_cast<std::uint64_t>(n * size),
      [&] { return linked_scatter_shader(out.dtype, setting()); })
      .follows = true;
}

void NodeCompiler::iota(NodeWork& work, const Node& node) {
  const Shape& shape = node.outputs[0].shape;
  if (shape.elements() == 0) return;
  std::int64_t inner = 1;
  const int axis = static_cast<int>(node.attributes.get<std::int64_t>("axis"));
  for (int other = axis + 1; other < shape.rank(); ++other) inner *= shape[other];
  add(work, "i", {operand({work.node, 0})}, {word(shape.elements()), word(inner), word(shape[axis])},
      static_cast<std::uint64_t>(shape.elements()), [&] { return iota_shader(setting()); });
}

void NodeCompiler::random_uniform(NodeWork& work, const Node& node) {
  const Shape& shape = node.outputs[0].shape;
  if (shape.elements() == 0) return;
  Operands operands;
  for (const ValueId in : node.inputs) operands.push_back(operand(in));
  operands.push_back(operand({work.node, 0}));
  const bool has_step = node.inputs.size() > 1;
  add(work, has_step ? "p1" : "p0", std::move(operands),
      {word(shape.elements()), word(node.attributes.get<std::int64_t>("rng_stream"))},
      static_cast<std::uint64_t>(shape.elements()), [&] { return random_shader(has_step, setting()); });
}

void NodeCompiler::pack_lengths(NodeWork& work, const Node& node) {
  const std::int64_t batch = type(node.inputs[0]).shape.elements();
  const std::int64_t steps = node.attributes.get<std::int64_t>("steps");
  require_iterations(node, batch, "sequences");
  Operands operands{operand(node.inputs[0])};
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
    operands.push_back(operand({work.node, k}));
  const std::int64_t invocations = std::max({batch * steps, batch, steps, std::int64_t{1}});
  add(work, "l", std::move(operands), {word(batch), word(steps)}, static_cast<std::uint64_t>(invocations),
      [&] { return pack_shader(setting()); });
}

}  // namespace unroll::vulkan
