// SPDX-License-Identifier: Apache-2.0
// Products of matrices as dispatches, and the buffers that operands share.
#include <algorithm>

#include "backends/common/walk.h"
#include "backends/vulkan/program/program.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

// True if two operands are parts of one buffer: of one input or output, of memory that overlaps, or of `span` bytes of
// the arena.
bool touch(const Operand& a, const Operand& b, std::size_t span) {
  const Storage &s = a.storage, &t = b.storage;
  if (a.bytes == 0 || b.bytes == 0 || a.element != b.element || a.previous != b.previous) return false;
  if (a.workspace != b.workspace || s.place != t.place || s.index != t.index) return false;
  if (!a.workspace && (s.place == Storage::Place::input || s.place == Storage::Place::output)) return true;
  const std::size_t begin = std::min(s.offset - a.before, t.offset - b.before);
  const bool in_arena = !a.workspace && s.place == Storage::Place::arena;
  if (in_arena && std::max(s.offset + a.bytes, t.offset + b.bytes) - begin <= span) return true;
  return s.offset - a.before < t.offset + b.bytes && t.offset - b.before < s.offset + a.bytes;
}

}  // namespace

// Exact ranges where they suffice: the validation layer then sees which values a dispatch touches.
Buffers NodeCompiler::shared_buffers(Operands& operands) const {
  Operands exact = operands;
  Buffers buffers = shared_buffers(exact, 0);
  if (exact.size() > most_operands()) return shared_buffers(operands, context_.device.limits().range / 2);
  operands = std::move(exact);
  return buffers;
}

Buffers NodeCompiler::shared_buffers(Operands& operands, std::size_t span) const {
  Buffers buffers;
  Operands kept;
  for (const Operand& operand : operands) {
    const auto found =
        std::find_if(kept.begin(), kept.end(), [&](const Operand& o) { return touch(o, operand, span); });
    buffers.of.push_back(static_cast<int>(found - kept.begin()));
    if (found == kept.end()) {
      buffers.distance.push_back(0);
      kept.push_back(operand);
      continue;
    }
    const std::size_t at = operand.storage.offset, from = found->storage.offset;
    buffers.distance.push_back(static_cast<std::uint32_t>(at / operand.element - from / operand.element));
    found->before = std::max(found->before, at < from ? from - at + operand.before : 0);
    if (at + operand.bytes > from) found->bytes = std::max(found->bytes, at + operand.bytes - from);
  }
  buffers.count = static_cast<int>(kept.size());
  operands = std::move(kept);
  return buffers;
}

ProductSizes NodeCompiler::product_sizes(const Node& node, ValueId c, Product& product) const {
  const device::ProductShape shape = product_shape(node, c);
  const device::Axes& axes = shape.matrices;
  ProductSizes sizes{};
  sizes.m = word(shape.m), sizes.units = word(shape.n), sizes.k = word(shape.k);
  sizes.a_row = word(shape.a_row), sizes.a_column = word(shape.a_column);
  sizes.b_row = word(shape.b_row), sizes.b_column = word(shape.b_column);
  sizes.c_row = word(shape.c_row);
  sizes.sizes = words(axes.sizes);
  sizes.a = words(axes.strides[0]), sizes.b = words(axes.strides[1]), sizes.c = words(axes.strides[2]);
  product.operands = type(node.inputs[0]).dtype;
  product.result = type(c).dtype;
  product.has_rows = shape.has_rows;
  product.rows_limit_k = node.attributes.get_or<bool>("transpose_a", false);
  product.batch_rank = static_cast<int>(axes.sizes.size());
  product.a_by_k = sizes.a_column <= sizes.a_row;
  product.b_by_k = sizes.b_row < sizes.b_column;
  return sizes;
}

// A product in parts has one sum for each part in workspace; they are added up from the first to the last.
void NodeCompiler::matmul(NodeWork& work, const Node& node) {
  const ValueId c{work.node, 0};
  const Type& type_c = type(c);
  if (type_c.shape.elements() == 0) return;
  Product product;
  ProductSizes sizes = product_sizes(node, c, product);
  const Tiling tiling = *choose_tiling(sizes, 1, Sum::in_parts, context_.device.limits());
  product.tile = tiling.tile;
  sizes.part = tiling.part;
  const std::uint32_t parts = sizes.parts();
  Operand to = operand(c);
  if (parts > 1) {
    const std::uint32_t outputs = word(type_c.shape.elements());
    to = workspace(std::size_t{parts} * outputs * sizeof(float));
    product.result = DType::f32;
    sizes.c_row = sizes.units;
    sizes.c_part = outputs;
    std::uint32_t stride = sizes.m * sizes.units;
    for (std::size_t axis = sizes.sizes.size(); axis-- > 0; stride *= sizes.sizes[axis]) sizes.c[axis] = stride;
  }
  Operands operands{operand(node.inputs[0]), operand(node.inputs[1])};
  if (product.has_rows) operands.push_back(operand(node.inputs[2]));
  operands.push_back(to);
  const std::uint32_t local = product.tile.invocations();
  add(work, product_key(product), std::move(operands), product_params(product, sizes),
      product_groups(product, sizes) * local, [&] { return product_shader(product, setting()); }, local,
      product.batch_rank == 0 ? row_items(work.node, type_c.shape, sizes.m) : 0);
  if (parts == 1) return;
  const std::uint32_t outputs = sizes.c_part;
  const ReductionSizes all{outputs, 1, parts, parts, {outputs}, {1}, {parts}, {outputs}};
  const common::Strides dense = common::dense_strides(type_c.shape), wanted = strides(c, type_c.shape);
  const bool is_dense = common::walk_of(type_c.shape, wanted) == common::Walk::dense && !is_half(type_c.dtype);
  const Operand sum = is_dense ? operand(c) : workspace(std::size_t{outputs} * sizeof(float));
  add_reduction(work, Reduction::sum, DType::f32, all, to, sum, true);
  if (is_dense) return;
  common::Expression rounded;
  rounded.shape = type_c.shape;
  rounded.inputs.push_back({DType::f32, dense});
  rounded.instructions.push_back({Op::cast, DType::f32, type_c.dtype, 0});
  rounded.results.push_back({1, wanted});
  expression(work, std::move(rounded), {sum, operand(c)});
  work.dispatches.back().follows = true;
}

}  // namespace unroll::vulkan
