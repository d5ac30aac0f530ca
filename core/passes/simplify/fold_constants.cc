// SPDX-License-Identifier: Apache-2.0
// Folds slices, concatenations and transposes of constants, such as the joined weights of several gates.
#include <cstring>

#include "core/passes/simplify/fold_constants.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/strided_read.h"

namespace unroll {

namespace {

const Tensor* tensor_of(const Value& value) {
  const Node& node = value.node();
  return node.op == Op::constant ? node.attributes.get<std::shared_ptr<const Tensor>>("value").get() : nullptr;
}

// Dimensions before and after an axis, as numbers of elements.
struct Around {
  std::size_t outer = 1, inner_bytes;
  Around(const Type& type, int axis) : inner_bytes(dtype_bytes(type.dtype)) {
    for (int i = 0; i < axis; ++i) outer *= static_cast<std::size_t>(type.shape[i]);
    for (int i = axis + 1; i < type.shape.rank(); ++i) inner_bytes *= static_cast<std::size_t>(type.shape[i]);
  }
};

// Copies `size` of the axis, from `from_start` on, to `to_start` on.
void copy_part(const Tensor& from, std::int64_t from_start, Tensor& to, std::int64_t to_start, std::int64_t size,
               int axis) {
  const Around at(to.type(), axis);
  const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n) * at.inner_bytes; };
  for (std::size_t o = 0; o < at.outer && size > 0; ++o)
    std::memcpy(to.bytes().data() + o * bytes(to.shape()[axis]) + bytes(to_start),
                from.bytes().data() + o * bytes(from.shape()[axis]) + bytes(from_start), bytes(size));
}

// Matrices are not turned: products read them either way, and several plans may share them.
bool is_turned_tensor(const RewriteNode& at) { return at.node.op == Op::transpose && at.operands[0].rank() > 2; }

Tensor transposed(const RewriteNode& at) {
  const Tensor& x = *tensor_of(at.operands[0]);
  Ints index(x.shape().rank(), 0);
  const Ints read = strided_read(at.node, x.shape(), row_major_strides(x.shape()))->strides;
  Tensor result(at.node.outputs[0]);
  const std::size_t size = dtype_bytes(result.dtype());
  std::byte* to = result.bytes().data();
  std::int64_t from = 0;
  for (std::int64_t e = 0; e < result.elements(); ++e, to += size) {
    std::memcpy(to, x.bytes().data() + from * size, size);
    for (int i = result.shape().rank() - 1; i >= 0; --i) {  // to the next index
      from += read[i];
      if (++index[i] < result.shape()[i]) break;
      from -= read[i] * index[i];
      index[i] = 0;
    }
  }
  return result;
}

}  // namespace

Value fold_constant_move(const RewriteNode& at) {
  const Op op = at.node.op;
  if (is_turned_tensor(at) && tensor_of(at.operands[0]) && tensor_of(at.operands[0])->elements() > 0)
    return constant(at.target, transposed(at));
  if (op != Op::slice && op != Op::concat && op != Op::reshape) return {};
  for (const Value& operand : at.operands)
    if (!tensor_of(operand) || tensor_of(operand)->elements() == 0) return {};
  Tensor result(at.node.outputs[0]);
  if (op == Op::reshape) {
    std::memcpy(result.bytes().data(), tensor_of(at.operands[0])->bytes().data(), result.bytes().size());
    return constant(at.target, std::move(result));
  }
  const auto axis = static_cast<int>(at.node.attributes.get<std::int64_t>("axis"));
  if (op == Op::slice) {
    copy_part(*tensor_of(at.operands[0]), at.node.attributes.get<std::int64_t>("start"), result, 0,
              result.shape()[axis], axis);
    return constant(at.target, std::move(result));
  }
  std::int64_t start = 0;
  for (const Value& operand : at.operands) {
    const std::int64_t size = operand.shape()[axis];
    copy_part(*tensor_of(operand), 0, result, start, size, axis);
    start += size;
  }
  return constant(at.target, std::move(result));
}

}  // namespace unroll
