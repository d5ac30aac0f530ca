// SPDX-License-Identifier: Apache-2.0
// Constants, ranges and operators with indices.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ir/input_range.h"
#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

std::vector<Value> constant_of(Call& call) {
  Graph& graph = call.graph();
  if (const AttributeDef* a = call.attribute("value"); a && a->t)
    return {graph.append_one(Op::constant, {}, {{"value", a->t}})};
  if (const AttributeDef* a = call.attribute("value_float")) return {scalar(graph, DType::f32, a->f.value_or(0))};
  if (const AttributeDef* a = call.attribute("value_int"))
    return {scalar(graph, DType::i32, static_cast<double>(call.narrow(a->i.value_or(0))))};
  if (const AttributeDef* a = call.attribute("value_floats"))
    return {constant(graph, Tensor::from({static_cast<std::int64_t>(a->floats.size())}, a->floats))};
  if (const AttributeDef* a = call.attribute("value_ints")) {
    std::vector<std::int32_t> list;
    for (const std::int64_t v : a->ints) list.push_back(call.narrow(v));
    return {constant(graph, Tensor::from<std::int32_t>({static_cast<std::int64_t>(list.size())}, list))};
  }
  call.unsupported("only values of numbers are supported");
}

std::vector<Value> constant_of_shape(Call& call) {
  const Shape shape{std::span<const std::int64_t>(call.ints(0))};
  const AttributeDef* value = call.attribute("value");
  if (value && (!value->t || value->t->elements() != 1)) call.refuse("value must have one element");
  const Type type{value ? value->t->dtype() : DType::f32, shape};
  return {filled(call.graph(), type, value ? value->t->at(0) : 0)};
}

std::vector<Value> range(Call& call) {
  const Tensor start = call.literal(0), limit = call.literal(1), delta = call.literal(2);
  if (start.elements() != 1 || limit.elements() != 1 || delta.elements() != 1) call.refuse("needs three scalars");
  if (delta.at(0) == 0) call.refuse("a step of 0");
  const double n = std::max(0.0, std::ceil((limit.at(0) - start.at(0)) / delta.at(0)));
  if (!(n < 1e9)) call.refuse("has too many elements");
  const Value index = cast(iota(call.graph(), {static_cast<std::int64_t>(n)}, 0), start.dtype());
  return {add(mul(index, scalar_like(index, delta.at(0))), scalar_like(index, start.at(0)))};
}

// Moves the axis to the front: table [N, rest...]; the result is [rest before, indices..., rest after].
std::vector<Value> gather_from(Call& call) {
  const Value x = call.in(0), indices = call.in(1);
  if (x.rank() == 0) call.refuse("the table is a scalar");
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  if (x.rank() + indices.rank() - 1 > Shape::k_max_rank) call.unsupported("more than 6 dimensions");
  Ints to_front{axis};
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) to_front.push_back(i);
  const Value table = axis == 0 ? x : transpose(x, to_front);
  const Value rows = gather(table, wrapped(indices, x.shape()[axis]));
  if (axis == 0) return {rows};
  Ints back;
  for (int i = 0; i < axis; ++i) back.push_back(indices.rank() + i);
  for (int i = 0; i < indices.rank(); ++i) back.push_back(i);
  for (int i = axis + indices.rank(); i < rows.rank(); ++i) back.push_back(i);
  return {transpose(rows, back)};
}

// Row (t, b) of the result is row (t < length ? length - 1 - t : t, b) of x [T,B,...].
std::vector<Value> reverse_sequence(Call& call) {
  const Value x = call.in(0), lengths = call.in(1);
  const std::int64_t batch_axis = call.integer("batch_axis", 1), time_axis = call.integer("time_axis", 0);
  if (x.rank() < 2 || batch_axis + time_axis != 1) call.refuse("needs batch and time as the first two axes");
  Ints order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  if (time_axis == 1) std::swap(order[0], order[1]);
  const Value by_time = time_axis == 1 ? transpose(x, order) : x;
  const std::int64_t steps = by_time.shape()[0], batch = by_time.shape()[1];
  if (lengths.shape() != Shape{batch}) call.refuse("sequence_lens is " + lengths.shape().text() + ", not one per row");
  require_lengths(lengths, steps);
  const Value t = iota(call.graph(), {steps, batch}, 0), b = iota(call.graph(), {steps, batch}, 1);
  const Value from = select(less(t, lengths), sub(lengths - 1.0, t), t);
  Ints dims{steps * batch};
  for (int i = 2; i < x.rank(); ++i) dims.push_back(x.shape()[i]);
  const Value rows = gather(reshape(by_time, Shape(dims)), add(from * static_cast<double>(batch), b));
  return {time_axis == 1 ? transpose(rows, order) : rows};
}

std::vector<Value> one_hot(Call& call) {
  const Value indices = call.in(0), values = call.in(2);
  const auto depth = static_cast<std::int64_t>(call.literal(1).at(0));
  const int axis = call.axis(call.integer("axis", -1), indices.rank() + 1);
  const Value at = wrapped(cast(indices, DType::i32), depth);
  const Shape shape = at.shape().inserted(axis, depth);
  const Value is_hot = equal(reshape(at, at.shape().inserted(axis, 1)), iota(call.graph(), shape, axis));
  return {select(is_hot, row(values, 1), row(values, 0))};
}

constexpr OperatorRow k_index_rows[] = {
    {"Constant", 1, constant_of},
    {"ConstantOfShape", 9, constant_of_shape},
    {"Gather", 1, gather_from},
    {"OneHot", 9, one_hot},
    {"Range", 11, range},
    {"ReverseSequence", 10, reverse_sequence},
};

}  // namespace

Value wrapped(Value indices, std::int64_t size) {
  const Value zero = scalar_like(indices, 0);
  return select(less(indices, zero), indices + static_cast<double>(size), indices);
}

std::span<const OperatorRow> index_rows() { return k_index_rows; }

}  // namespace unroll::onnx
