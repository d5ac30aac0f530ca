// SPDX-License-Identifier: Apache-2.0
// Functions that append primitives, and scan.
#include "unroll/ir/ops.h"

#include <algorithm>

#include "core/ir/append.h"
#include "core/ir/input_range.h"
#include "core/ir/ops/scan_parts.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

Ints ints(const Shape& shape) { return {shape.begin(), shape.end()}; }

}  // namespace

Value constant(Graph& graph, Tensor value) {
  return graph.append_one(Op::constant, {}, {{"value", std::make_shared<const Tensor>(std::move(value))}});
}
Value scalar(Graph& graph, DType dtype, double value) { return constant(graph, Tensor::scalar(dtype, value)); }
Value scalar_like(Value like, double value) { return scalar(like.graph(), like.dtype(), value); }
Value filled(Graph& graph, Type type, double value) { return broadcast(scalar(graph, type.dtype, value), type.shape); }
Value iota(Graph& graph, Shape shape, int axis) {
  return graph.append_one(Op::iota, {}, {{"shape", ints(shape)}, {"axis", std::int64_t{from_end(axis, shape.rank())}}});
}
Value random_uniform(Value key, Shape shape, std::int64_t rng_stream, Value step) {
  const Attributes attributes{{"shape", ints(shape)}, {"rng_stream", rng_stream}};
  return step ? append(Op::random_uniform, {key, step}, attributes) : append(Op::random_uniform, {key}, attributes);
}

#define UNROLL_OP(...)
#define UNROLL_COMPOSITE(...)
#define UNROLL_UNARY(name, ...) \
  Value name(Value x) { return append(Op::name, {x}); }
#define UNROLL_BINARY(name, ...) \
  Value name(Value a, Value b) { return append(Op::name, {a, b}); }
#include "unroll/ir/op_table.def"
Value is_finite(Value x) { return append(Op::is_finite, {x}); }
Value logical_not(Value a) { return append(Op::logical_not, {a}); }
Value select(Value condition, Value a, Value b) { return append(Op::select, {condition, a, b}); }
Value cast(Value x, DType dtype) { return x.dtype() == dtype ? x : append(Op::cast, {x}, {{"dtype", dtype}}); }

Value reshape(Value x, Shape shape) {
  return x.shape() == shape ? x : append(Op::reshape, {x}, {{"shape", ints(shape)}});
}
Value transpose(Value x, Ints permutation) {
  for (std::int64_t& axis : permutation) axis = axis < 0 ? axis + x.rank() : axis;
  return append(Op::transpose, {x}, {{"permutation", std::move(permutation)}});
}
Value slice(Value x, int axis, std::int64_t start, std::int64_t size) {
  return append(Op::slice, {x}, {{"axis", std::int64_t{from_end(axis, x.rank())}}, {"start", start}, {"size", size}});
}
Value pad(Value x, int axis, std::int64_t low, std::int64_t high) {
  return append(Op::pad, {x}, {{"axis", std::int64_t{from_end(axis, x.rank())}}, {"low", low}, {"high", high}});
}
Value concat(ValueList parts, int axis) {
  if (parts.empty()) throw Error(ErrorKind::usage, "concat", "needs at least one part");
  if (parts.size() == 1) return parts[0];
  return parts[0].graph().append_one(Op::concat, parts, {{"axis", std::int64_t{from_end(axis, parts[0].rank())}}});
}
Value broadcast(Value x, Shape shape) {
  return x.shape() == shape ? x : append(Op::broadcast, {x}, {{"shape", ints(shape)}});
}
Value windows(Value x, int axis, std::int64_t size, std::int64_t stride, std::int64_t dilation) {
  return append(Op::windows, {x}, {{"axis", std::int64_t{from_end(axis, x.rank())}},
                                   {"size", size}, {"stride", stride}, {"dilation", dilation}});
}
Value matmul(Value a, Value b, Transposed transposed) {
  return append(Op::matmul, {a, b}, {{"transpose_a", transposed.a}, {"transpose_b", transposed.b}});
}
Ints Axes::of(int rank, std::string_view who) const {
  Ints axes = axes_.value_or(Ints());
  if (!axes_)
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  for (std::int64_t& axis : axes) {
    if (axis < -rank || axis >= rank)
      throw Error(ErrorKind::shape, who,
                  "axis " + std::to_string(axis) + " is outside of rank " + std::to_string(rank));
    axis = axis < 0 ? axis + rank : axis;
  }
  std::ranges::sort(axes);
  if (const auto twice = std::ranges::adjacent_find(axes); twice != axes.end())
    throw Error(ErrorKind::shape, who, "axis " + std::to_string(*twice) + " is given twice");
  return axes;
}
Value reduce_sum(Value x, const Axes& axes, bool keep) {
  return append(Op::reduce_sum, {x}, {{"axes", axes.of(x.rank(), "reduce_sum")}, {"keep", keep}});
}
Value reduce_max(Value x, const Axes& axes, bool keep) {
  return append(Op::reduce_max, {x}, {{"axes", axes.of(x.rank(), "reduce_max")}, {"keep", keep}});
}
Value argmax(Value x, int axis) { return append(Op::argmax, {x}, {{"axis", std::int64_t{from_end(axis, x.rank())}}}); }
Value gather(Value table, Value indices) { return append(Op::gather, {table, indices}); }
Value scatter_add(Value indices, Value updates, std::int64_t rows) {
  return append(Op::scatter_add, {indices, updates}, {{"rows", rows}});
}

std::vector<Value> scan_body(ValueList inputs, Attributes attributes, std::shared_ptr<const Graph> body) {
  if (inputs.empty()) throw Error(ErrorKind::usage, "scan", "needs at least one state, sequence or constant");
  copy_ranges(*body, inputs);
  return inputs[0].graph().append(Op::scan, inputs, std::move(attributes), std::move(body));
}

Value without_padding(Value x, Value lengths) {
  const bool has_rows = lengths && lengths.rank() == 1 && x.rank() >= 2 && x.shape()[1] == lengths.shape()[0];
  if (!has_rows || !is_float(x.dtype())) return x;
  Shape shape{x.shape()[0], x.shape()[1]};
  const Value live = less(iota(x.graph(), shape, 0), lengths);
  while (shape.rank() < x.rank()) shape = shape.inserted(shape.rank(), 1);
  return zero_unless(reshape(live, shape), x);
}

ScanResult scan(ValueList states, ValueList sequences, ValueList constants, const StepFunction& step,
                const ScanOptions& options) {
  const std::int64_t steps = sequences.empty() ? options.steps : sequences[0].rank() > 0 ? sequences[0].shape()[0] : -1;
  if (steps < 0) throw Error(ErrorKind::usage, "scan", "needs a sequence [T,...], or options.steps");
  auto body = std::make_shared<Graph>();
  StepValues values;
  const auto add_inputs = [&](std::span<const Value> outer, std::string_view prefix, bool sequence,
                              std::vector<Value>& inner) {
    for (const Value& value : outer) {
      Type type = value.type();
      if (sequence) {
        if (type.shape.rank() < 1) throw Error(ErrorKind::shape, "scan", "a sequence must be [T,...]; got a scalar");
        type.shape = type.shape.removed(0);
      }
      inner.push_back(body->input(std::string(prefix) + std::to_string(inner.size()), type));
    }
  };
  add_inputs(states, "state", false, values.states);
  add_inputs(sequences, "x", true, values.sequences);
  add_inputs(constants, "constant", false, values.constants);
  const StepResult result = step(values);
  if (result.states.size() != states.size())
    throw Error(
        ErrorKind::usage, "scan",
        "the step gives " + std::to_string(result.states.size()) + " states of " + std::to_string(states.size()));
  for (std::size_t i = 0; i < result.states.size(); ++i) body->output("next" + std::to_string(i), result.states[i]);
  for (std::size_t i = 0; i < result.outputs.size(); ++i) body->output("y" + std::to_string(i), result.outputs[i]);

  require_lengths(options.lengths, steps);
  ScanParts parts;
  parts.states.assign(states.begin(), states.end());
  for (const Value& x : sequences)
    parts.sequences.push_back(options.finite_padding ? x : without_padding(x, options.lengths));
  parts.constants.assign(constants.begin(), constants.end());
  parts.lengths = options.lengths;
  parts.reset = options.reset;
  parts.attributes = {{"steps", steps}, {"reverse", options.reverse}};
  const std::vector<Value> outputs = parts.emit(std::move(body));
  const auto stacks = outputs.begin() + std::ssize(states);
  return {{outputs.begin(), stacks}, {stacks, outputs.end()}};
}

}  // namespace unroll
