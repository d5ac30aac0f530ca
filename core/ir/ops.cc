// SPDX-License-Identifier: Apache-2.0
// Functions that append primitives, and scan.
#include "unroll/ir/ops.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "core/ir/append.h"
#include "core/ir/input_range.h"
#include "core/ir/ops/scan_parts.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

Ints ints(const Shape& shape) { return {shape.begin(), shape.end()}; }

// A negative axis counts from the end.
std::int64_t from_end(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

// x with zeros where a mask is not set. Elementwise ops are computed again from masked operands: the gradient of
// (p - t)^2 is NaN at a missing target t, and stays NaN times zero.
class Seen {
 public:
  explicit Seen(Value mask) : mask_(mask) {}

  Value of(Value x, double hidden = 0, int levels = k_levels) {
    if (!is_float(x.dtype()) || (x.rank() == 0 && mask_.rank() > 0)) return x;
    return select(mask_, levels > 0 && x.shape() == mask_.shape() ? again(x, levels) : x, scalar_like(x, hidden));
  }

 private:
  static constexpr int k_levels = 16;  // of a loss written out in ops
  static constexpr std::array k_poles{Op::div, Op::log, Op::sqrt};  // not finite at 0, or of infinite slope

  // A composite of operands that have the result's shape, such as mse, works element by element.
  static bool is_loss(Value x, std::span<const Value> inputs) {
    return op_info(x.node().op).tier == OpTier::composite && inputs.size() == 2 &&
           std::ranges::all_of(inputs, [&](const Value& input) { return input.shape() == x.shape(); });
  }

  Value again(Value x, int levels) {
    if (const auto at = done_.find(x.id()); at != done_.end()) return at->second;
    const auto is_one_of = [op = x.node().op](const auto& ops) { return std::ranges::find(ops, op) != ops.end(); };
    const Node node = x.node();
    std::vector<Value> inputs;
    for (const ValueId input : node.inputs) inputs.emplace_back(&x.graph(), input);
    if (node.op == Op::softmax_cross_entropy)  // a row without a label is not read
      inputs[1] = select(mask_, inputs[1], scalar_like(inputs[1], -1));
    else if (is_elementwise(node.op) || is_loss(x, inputs))
      for (Value& input : inputs) input = of(input, is_one_of(k_poles) ? 1 : 0, levels - 1);
    else
      return x;
    return done_[x.id()] = x.graph().append_one(node.op, inputs, node.attributes);
  }

  Value mask_;
  std::map<ValueId, Value> done_;
};

}  // namespace

Value constant(Graph& graph, Tensor value) {
  return graph.append_one(Op::constant, {}, {{"value", std::make_shared<const Tensor>(std::move(value))}});
}
Value scalar(Graph& graph, DType dtype, double value) { return constant(graph, Tensor::scalar(dtype, value)); }
Value scalar_like(Value like, double value) { return scalar(like.graph(), like.dtype(), value); }
Value filled(Graph& graph, Type type, double value) { return broadcast(scalar(graph, type.dtype, value), type.shape); }
Value iota(Graph& graph, Shape shape, int axis) {
  return graph.append_one(Op::iota, {}, {{"shape", ints(shape)}, {"axis", from_end(axis, shape.rank())}});
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

Value square(Value x) { return x * x; }
Value relu(Value x) { return maximum(x, scalar_like(x, 0)); }
Value silu(Value x) { return x * sigmoid(x); }
Value softplus(Value x) { return relu(x) + log1p(exp(neg(abs(x)))); }

Value reshape(Value x, Shape shape) {
  return x.shape() == shape ? x : append(Op::reshape, {x}, {{"shape", ints(shape)}});
}
Value transpose(Value x, Ints permutation) {
  return append(Op::transpose, {x}, {{"permutation", std::move(permutation)}});
}
Value slice(Value x, int axis, std::int64_t start, std::int64_t size) {
  return append(Op::slice, {x}, {{"axis", from_end(axis, x.rank())}, {"start", start}, {"size", size}});
}
Value pad(Value x, int axis, std::int64_t low, std::int64_t high) {
  return append(Op::pad, {x}, {{"axis", from_end(axis, x.rank())}, {"low", low}, {"high", high}});
}
Value concat(std::span<const Value> parts, int axis) {
  if (parts.empty()) throw Error(ErrorKind::usage, "concat", "needs at least one part");
  if (parts.size() == 1) return parts[0];
  return parts[0].graph().append_one(Op::concat, parts, {{"axis", from_end(axis, parts[0].rank())}});
}
Value broadcast(Value x, Shape shape) {
  return x.shape() == shape ? x : append(Op::broadcast, {x}, {{"shape", ints(shape)}});
}
Value stack(std::span<const Value> parts) {
  std::vector<Value> rows;
  for (const Value& part : parts) rows.push_back(reshape(part, part.shape().inserted(0, 1)));
  return concat(rows, 0);
}
std::vector<Value> split(Value x, int axis, int n) {
  const std::int64_t size = x.shape()[static_cast<int>(from_end(axis, x.rank()))];
  if (n <= 0 || size % n != 0)
    throw Error(ErrorKind::shape, "split",
                std::to_string(size) + " elements do not split into " + std::to_string(n) + " equal parts");
  std::vector<Value> parts;
  for (int i = 0; i < n; ++i) parts.push_back(slice(x, axis, i * (size / n), size / n));
  return parts;
}
Value row(Value x, std::int64_t index) {
  const Value part = slice(x, 0, index, 1);
  return reshape(part, part.shape().removed(0));
}

Value matmul(Value a, Value b, Transposed transposed) {
  return append(Op::matmul, {a, b}, {{"transpose_a", transposed.a}, {"transpose_b", transposed.b}});
}
Value linear(Value x, Value weight, Value bias) {
  if (x.rank() < 1 || weight.rank() != 2)
    throw Error(ErrorKind::shape, "linear",
                "takes x [...,I] and weight [O,I]; got " + x.shape().text() + " and " + weight.shape().text());
  const std::int64_t width = x.shape()[x.rank() - 1];
  const std::int64_t rows =
      std::accumulate(x.shape().begin(), x.shape().end() - 1, std::int64_t{1}, std::multiplies<>());
  const Value product = matmul(reshape(x, Shape{rows, width}), weight, {.b = true});
  const Value y = bias ? product + bias : product;
  return reshape(y, x.shape().with(x.rank() - 1, weight.shape()[0]));
}
Value reduce_sum(Value x, Ints axes, bool keep) {
  return append(Op::reduce_sum, {x}, {{"axes", std::move(axes)}, {"keep", keep}});
}
Value reduce_max(Value x, Ints axes, bool keep) {
  return append(Op::reduce_max, {x}, {{"axes", std::move(axes)}, {"keep", keep}});
}
Value argmax(Value x, int axis) { return append(Op::argmax, {x}, {{"axis", from_end(axis, x.rank())}}); }
Value sum(Value x) {
  Ints axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  return reduce_sum(x, std::move(axes));
}
Value mean(Value x) { return sum(x) * (1.0 / static_cast<double>(std::max<std::int64_t>(x.shape().elements(), 1))); }
Value masked_mean(Value x, Value mask) {
  const Value weights = broadcast(cast(mask, x.dtype()), x.shape());
  const Value seen = mask.dtype() == DType::b8 ? mask : logical_not(equal(mask, scalar_like(mask, 0)));
  return sum(Seen(broadcast(seen, x.shape())).of(x) * weights) / maximum(sum(weights), scalar_like(x, 1));
}

Value gather(Value table, Value indices) { return append(Op::gather, {table, indices}); }
Value scatter_add(Value indices, Value updates, std::int64_t rows) {
  return append(Op::scatter_add, {indices, updates}, {{"rows", rows}});
}

std::vector<Value> scan_body(std::span<const Value> inputs, Attributes attributes, std::shared_ptr<const Graph> body) {
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

ScanResult scan(std::span<const Value> states, std::span<const Value> sequences, std::span<const Value> constants,
                const StepFunction& step, const ScanOptions& options) {
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
