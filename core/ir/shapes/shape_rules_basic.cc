// SPDX-License-Identifier: Apache-2.0
// Shape rules of the primitives.
#include <algorithm>
#include <cstdint>

#include "core/ir/ops/unary_ops.h"
#include "core/ir/shapes/shape_rules.h"

namespace unroll {

namespace {

Shape shape_attribute(const ShapeQuery& q) { return Shape(q.attributes.get<Ints>("shape")); }

std::vector<Type> input_rule(const ShapeQuery& q) {
  q.attributes.get<std::string>("name");
  return {{q.attributes.get<DType>("dtype"), shape_attribute(q)}};
}
std::vector<Type> constant_rule(const ShapeQuery& q) {
  return {q.attributes.get<std::shared_ptr<const Tensor>>("value")->type()};
}
std::vector<Type> iota_rule(const ShapeQuery& q) {
  const Shape shape = shape_attribute(q);
  q.axis(shape.rank());
  return {{DType::i32, shape}};
}

// unary
std::vector<Type> unary_rule(const ShapeQuery& q) {
  switch (find_unary(q.op)->operand) {
    case UnaryOperand::floats: q.require_float(0); break;
    case UnaryOperand::numbers: q.require_number(0); break;
    case UnaryOperand::any: break;
  }
  return {q.in(0)};
}
std::vector<Type> float_test(const ShapeQuery& q) {
  q.require_float(0);
  return {{DType::b8, q.shape(0)}};
}

// binary
Shape broadcast_inputs(const ShapeQuery& q) {
  Shape shape = q.shape(0);
  for (std::size_t i = 1; i < q.inputs.size(); ++i) shape = broadcast_shapes(shape, q.shape(i), op_info(q.op).name);
  return shape;
}
std::vector<Type> number_binary(const ShapeQuery& q) {
  q.require_same_dtype();
  q.require_number(0);
  return {{q.in(0).dtype, broadcast_inputs(q)}};
}
std::vector<Type> compare(const ShapeQuery& q) {
  q.require_same_dtype();
  if (q.in(0).dtype != DType::b8) q.require_number(0);
  return {{DType::b8, broadcast_inputs(q)}};
}
std::vector<Type> logical(const ShapeQuery& q) {
  for (std::size_t i = 0; i < q.inputs.size(); ++i) q.require_dtype(i, DType::b8, "an operand");
  return {{DType::b8, broadcast_inputs(q)}};
}
std::vector<Type> select_rule(const ShapeQuery& q) {
  q.require_dtype(0, DType::b8, "the condition");
  if (q.in(1).dtype != q.in(2).dtype)
    q.fail_type("both branches must have one dtype; got " + q.in(1).text() + " and " + q.in(2).text());
  return {{q.in(1).dtype, broadcast_inputs(q)}};
}
std::vector<Type> cast_rule(const ShapeQuery& q) { return {{q.attributes.get<DType>("dtype"), q.shape(0)}}; }

// movement
std::vector<Type> reshape_rule(const ShapeQuery& q) {
  const Shape shape = shape_attribute(q);
  q.require(shape.elements() == q.shape(0).elements(), q.shape(0).text() + " cannot become " + shape.text());
  return {{q.in(0).dtype, shape}};
}
std::vector<Type> transpose_rule(const ShapeQuery& q) {
  const Ints& permutation = q.attributes.get<Ints>("permutation");
  const Shape& x = q.shape(0);
  Ints sorted = permutation, dims;
  std::sort(sorted.begin(), sorted.end());
  bool ok = static_cast<int>(sorted.size()) == x.rank();
  for (std::size_t i = 0; ok && i < sorted.size(); ++i) ok = sorted[i] == static_cast<std::int64_t>(i);
  q.require(ok, "permutation must name every axis of " + x.text() + " once");
  for (const std::int64_t p : permutation) dims.push_back(x[static_cast<int>(p)]);
  return {{q.in(0).dtype, Shape(dims)}};
}
std::vector<Type> slice_rule(const ShapeQuery& q) {
  const Shape& x = q.shape(0);
  const int axis = static_cast<int>(q.axis(x.rank()));
  const std::int64_t start = q.integer("start"), size = q.integer("size");
  q.require(start >= 0 && size >= 0 && start <= x[axis] && size <= x[axis] - start,
            "start " + std::to_string(start) + " and size " + std::to_string(size) + " leave axis " +
                std::to_string(axis) + " of " + x.text());
  return {{q.in(0).dtype, x.with(axis, size)}};
}
std::vector<Type> pad_rule(const ShapeQuery& q) {
  const Shape& x = q.shape(0);
  const int axis = static_cast<int>(q.axis(x.rank()));
  const std::int64_t low = q.integer("low"), high = q.integer("high");
  std::int64_t size = 0;
  q.require(low >= 0 && high >= 0 && !__builtin_add_overflow(low, high, &size) &&
                !__builtin_add_overflow(size, x[axis], &size),
            "low and high must not be negative; got " + std::to_string(low) + " and " + std::to_string(high));
  return {{q.in(0).dtype, x.with(axis, size)}};
}
std::vector<Type> concat_rule(const ShapeQuery& q) {
  q.require_same_dtype();
  const int axis = static_cast<int>(q.axis(q.shape(0).rank()));
  std::int64_t total = 0;
  for (const Type& t : q.inputs) {
    q.require(t.shape.rank() == q.shape(0).rank() && t.shape.with(axis, 0) == q.shape(0).with(axis, 0),
              "parts must agree outside axis " + std::to_string(axis) + "; got " + q.shape(0).text() + " and " +
                  t.shape.text());
    q.require(!__builtin_add_overflow(total, t.shape[axis], &total), "the parts are too long together");
  }
  return {{q.in(0).dtype, q.shape(0).with(axis, total)}};
}
std::vector<Type> broadcast_rule(const ShapeQuery& q) {
  const Shape shape = shape_attribute(q);
  q.require(broadcast_shapes(q.shape(0), shape, "broadcast") == shape,
            q.shape(0).text() + " does not broadcast to " + shape.text());
  return {{q.in(0).dtype, shape}};
}

std::vector<Type> windows_rule(const ShapeQuery& q) {
  const Shape& x = q.shape(0);
  q.require(x.rank() >= 2 && x.rank() < Shape::k_max_rank,
            "needs an axis of positions before the last one, and room for another; got " + x.text());
  const int axis = static_cast<int>(q.axis(x.rank() - 1));
  const std::int64_t size = q.integer("size"), stride = q.integer("stride"), dilation = q.integer("dilation");
  q.require(size > 0 && stride > 0 && dilation > 0,
            "size, stride and dilation must be positive; got " + std::to_string(size) + ", " + std::to_string(stride) +
                " and " + std::to_string(dilation));
  std::int64_t reach = 0;
  const bool fits = !__builtin_mul_overflow(size - 1, dilation, &reach) && reach < x[axis];
  return {{q.in(0).dtype, x.with(axis, fits ? (x[axis] - reach - 1) / stride + 1 : 0).inserted(x.rank() - 1, size)}};
}

// contractions and reductions
std::vector<Type> matmul_rule(const ShapeQuery& q) {
  ShapeQuery{q.op, q.inputs.first(2), q.attributes, q.body}.require_same_dtype();
  if (!is_half(q.in(0).dtype)) q.require_float(0);
  const Shape &a = q.shape(0), &b = q.shape(1);
  const int r = a.rank();
  q.require(r >= 2 && b.rank() == r, "operands must have one rank of at least 2; got " + a.text() + " and " + b.text());
  const bool ta = q.flag("transpose_a"), tb = q.flag("transpose_b");
  const std::int64_t m = a[ta ? r - 1 : r - 2], ka = a[ta ? r - 2 : r - 1];
  const std::int64_t kb = b[tb ? r - 1 : r - 2], n = b[tb ? r - 2 : r - 1];
  if (q.inputs.size() > 2) {
    q.require_dtype(2, DType::i32, "rows");
    q.require_shape(2, Shape{}, "rows");
    q.require(r == 2, "a count of rows goes with matrices; got " + a.text());
  }
  bool same_batch = true;
  for (int i = 0; i < r - 2; ++i) same_batch &= a[i] == b[i];
  q.require(same_batch && ka == kb, "inner and batch dimensions must agree; got " + a.text() + (ta ? "^T" : "") +
                                        " and " + b.text() + (tb ? "^T" : ""));
  const DType accumulator = arithmetic_dtype(q.in(0).dtype);
  const DType result = q.attributes.get_or<DType>("dtype", accumulator);
  if (result != accumulator && result != q.in(0).dtype)
    q.fail_type("a product of " + std::string(dtype_name(q.in(0).dtype)) + " is stored as that or as " +
                std::string(dtype_name(accumulator)) + "; got " + std::string(dtype_name(result)));
  return {{result, a.with(r - 2, m).with(r - 1, n)}};
}
std::vector<Type> reduce_rule(const ShapeQuery& q) {
  const bool adds_halves = q.op == Op::reduce_sum && is_half(q.in(0).dtype);
  if (!adds_halves) q.require_number(0);
  const Shape& x = q.shape(0);
  const bool keep = q.flag("keep");
  std::int64_t before = -1;
  Ints dims(x.begin(), x.end());
  for (const std::int64_t axis : q.attributes.get<Ints>("axes")) {
    q.require(axis > before && axis < x.rank(), "axes must ascend inside rank " + std::to_string(x.rank()));
    q.require(q.op != Op::reduce_max || x[static_cast<int>(axis)] > 0,
              "needs at least one element on axis " + std::to_string(axis));
    dims[axis] = keep ? 1 : -1;
    before = axis;
  }
  std::erase(dims, -1);
  return {{arithmetic_dtype(q.in(0).dtype), Shape(dims)}};
}
std::vector<Type> argmax_rule(const ShapeQuery& q) {
  q.require_number(0);
  const int axis = static_cast<int>(q.axis(q.shape(0).rank()));
  q.require(q.shape(0)[axis] > 0, "needs at least one element on axis " + std::to_string(axis));
  return {{DType::i32, q.shape(0).removed(axis)}};
}

// indexing
std::vector<Type> gather_rule(const ShapeQuery& q) {
  q.require_dtype(1, DType::i32, "indices");
  q.require(q.shape(0).rank() >= 1, "the table needs an axis");
  Ints dims(q.shape(1).begin(), q.shape(1).end());
  dims.insert(dims.end(), q.shape(0).begin() + 1, q.shape(0).end());
  return {{q.in(0).dtype, Shape(dims)}};
}
std::vector<Type> scatter_add_rule(const ShapeQuery& q) {
  q.require_dtype(0, DType::i32, "indices");
  q.require_float(1);
  const Shape &indices = q.shape(0), &updates = q.shape(1);
  q.require(updates.rank() >= indices.rank() && std::equal(indices.begin(), indices.end(), updates.begin()),
            "updates must begin with the indices' shape; got " + updates.text() + " and " + indices.text());
  Ints dims{q.integer("rows")};
  dims.insert(dims.end(), updates.begin() + indices.rank(), updates.end());
  return {{q.in(1).dtype, Shape(dims)}};
}

std::vector<Type> pack_lengths_rule(const ShapeQuery& q) {
  q.require_dtype(0, DType::i32, "lengths");
  q.require(q.shape(0).rank() == 1, "lengths must be [B]; got " + q.shape(0).text());
  const std::int64_t steps = q.integer("steps"), batch = q.shape(0)[0];
  std::int64_t places = 0;
  q.require(steps >= 0 && !__builtin_mul_overflow(steps, batch, &places) && places <= INT32_MAX,
            "steps must be at least 0 and steps * B an i32; got " + std::to_string(steps) + " steps");
  const auto ints = [](Shape shape) { return Type{DType::i32, std::move(shape)}; };
  return {ints({steps}), ints({batch}), ints({batch}), ints({places}), ints({places}), ints({})};
}

std::vector<Type> random_uniform_rule(const ShapeQuery& q) {
  q.require_dtype(0, DType::i32, "key");
  q.require_shape(0, Shape{3}, "key");
  if (q.inputs.size() > 1) {
    q.require_dtype(1, DType::i32, "step");
    q.require_shape(1, Shape{}, "step");
  }
  q.integer("rng_stream");
  return {{DType::f32, shape_attribute(q)}};
}

constexpr ShapeRow k_basic_rows[] = {
    {Op::input, input_rule},
    {Op::constant, constant_rule},
    {Op::iota, iota_rule},
    {Op::is_finite, float_test},
    {Op::select, select_rule},
    {Op::cast, cast_rule},
    {Op::reshape, reshape_rule},
    {Op::transpose, transpose_rule},
    {Op::slice, slice_rule},
    {Op::pad, pad_rule},
    {Op::concat, concat_rule},
    {Op::broadcast, broadcast_rule},
    {Op::windows, windows_rule},
    {Op::matmul, matmul_rule},
    {Op::reduce_sum, reduce_rule},
    {Op::reduce_max, reduce_rule},
    {Op::argmax, argmax_rule},
    {Op::gather, gather_rule},
    {Op::scatter_add, scatter_add_rule},
    {Op::pack_lengths, pack_lengths_rule},
    {Op::random_uniform, random_uniform_rule},
};

}  // namespace

std::span<const ShapeRow> basic_shape_rules() { return k_basic_rows; }

ShapeRule elementwise_shape_rule(Op op) {
  if (find_unary(op)) return unary_rule;
  switch (op_info(op).kind) {
    case OpKind::binary: return number_binary;
    case OpKind::compare: return compare;
    case OpKind::logical: return logical;
    default: return nullptr;
  }
}

}  // namespace unroll
