// SPDX-License-Identifier: Apache-2.0
#include "core/passes/lengths/ended_bounds.h"

#include <algorithm>
#include <cmath>

#include "core/ir/ops/unary_ops.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr double k_infinity = std::numeric_limits<double>::infinity();
constexpr double k_positive = std::numeric_limits<double>::min();  // the bound of what is above zero
constexpr double k_smallest = 6e-8;                                // of f16: what is smaller may be rounded to zero

struct Interval {
  double low = -k_infinity, high = k_infinity;
};

double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }  // 0 times infinity: of bounds
Interval product(const Interval& a, const Interval& b) {
  const auto [low, high] = std::minmax({product(a.low, b.low), product(a.low, b.high), product(a.high, b.low),
                                        product(a.high, b.high)});
  return {low, high};
}
Interval hull(const Interval& a, const Interval& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

// 1 / b for an interval without zero.
Interval reciprocal(const Interval& b) {
  if (b.low > 0) return {std::max(k_positive, 1 / b.high), 1 / b.low};
  if (b.high < 0) return {1 / b.high, std::min(-k_positive, 1 / b.low)};
  return {};
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

Interval flushed_to_zero(const Interval& x) {
  return {x.low > 0 && x.low < k_smallest ? 0 : x.low, x.high < 0 && x.high > -k_smallest ? 0 : x.high};
}

// Bounds for the ops that denominators and logarithms are made of.
Interval of_unary(Op op, const Interval& x) {
  switch (op) {
    case Op::neg: return {-x.high, -x.low};
    case Op::abs: {
      const auto [low, high] = std::minmax({std::abs(x.low), std::abs(x.high)});  // by value: they are temporaries
      return {x.low <= 0 && x.high >= 0 ? 0 : low, high};
    }
    case Op::exp: return {std::max(k_positive, std::exp(x.low)), std::exp(x.high)};
    case Op::sqrt: return {std::sqrt(std::max(0., x.low)), std::sqrt(std::max(0., x.high))};
    case Op::tanh: return {std::tanh(x.low), std::tanh(x.high)};
    case Op::sigmoid: return {std::max(k_positive, sigmoid_of(x.low)), sigmoid_of(x.high)};
    case Op::round_bf16:
    case Op::round_f16:
    case Op::round_tf32:
    case Op::cast: return flushed_to_zero(x);
    case Op::stop_gradient:
    case Op::reshape:
    case Op::slice:
    case Op::broadcast:
    case Op::transpose: return x;
    case Op::pad: return hull(x, {0, 0});
    default: return {};
  }
}

Interval of_binary(Op op, const Interval& a, const Interval& b) {
  switch (op) {
    case Op::add: return {a.low + b.low, a.high + b.high};
    case Op::sub: return {a.low - b.high, a.high - b.low};
    case Op::mul: return product(a, b);
    case Op::div: return a.low == 0 && a.high == 0 ? a : product(a, reciprocal(b));
    case Op::maximum: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Op::minimum: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    default: return {};
  }
}

// True if the op may turn a finite operand of these bounds into an infinity or NaN. Logarithms and roots are the ops
// that round without a bound of their slope; they have their poles, or the ends of their domains, at or below zero.
bool has_pole(const Node& node, const std::vector<EndedBounds>& operands) {
  if (node.op == Op::div) return is_float(node.outputs[0].dtype) && operands[1].holds(0);
  const UnaryOp* unary = find_unary(node.op);
  const bool has_end = unary && unary->rounds && std::isinf(unary->slope);
  if (!has_end || node.op == Op::exp || node.op == Op::expm1) return false;
  return unary->keeps_zero ? operands[0].low < 0 : operands[0].low <= 0;
}
// The operand in which it has the pole.
const EndedBounds& at_pole(const Node& node, const std::vector<EndedBounds>& operands) {
  return operands[node.op == Op::div ? 1 : 0];
}

Interval interval_of(const Node& node, const std::vector<EndedBounds>& operands) {
  const auto at = [&](std::size_t k) { return Interval{operands[k].low, operands[k].high}; };
  switch (node.op) {
    case Op::select: return hull(at(1), at(2));
    case Op::concat: {
      Interval all = at(0);
      for (std::size_t k = 1; k < operands.size(); ++k) all = hull(all, at(k));
      return all;
    }
    case Op::matmul: return operands[0].low == 0 && operands[0].high == 0 ? at(0) : Interval{};
    default: break;
  }
  if (node.outputs[0].dtype == DType::b8) return {0, 1};
  return operands.size() == 1 ? of_unary(node.op, at(0)) : of_binary(node.op, at(0), at(1));
}

bool is_known(Op op) {
  return is_elementwise(op) || op_info(op).kind == OpKind::move || op == Op::matmul;
}

}  // namespace

EndedBounds ended_bounds(const Graph& graph, std::int32_t id, const std::vector<EndedBounds>& operands) {
  const Node& node = graph.node(id);
  if (node.op == Op::constant) {
    const Tensor& tensor = *node.attributes.get<std::shared_ptr<const Tensor>>("value");
    return tensor.elements() == 1 ? EndedBounds::of(tensor.at(0)) : EndedBounds{};
  }
  if (!is_known(node.op) || operands.empty()) return {};
  EndedBounds result;
  for (const EndedBounds& operand : operands) {
    result.loop = std::max(result.loop, operand.loop);
    result.cause = std::max(result.cause, operand.cause);
  }
  if (result.loop < 0) {  // the same in both forms, so a pole is too
    if (has_pole(node, operands)) return {};
  } else if (has_pole(node, operands) && at_pole(node, operands).loop >= 0) {
    result.cause = id;
  }
  const Interval interval = interval_of(node, operands);
  if (std::isnan(interval.low) || std::isnan(interval.high)) return {.loop = result.loop, .cause = result.cause};
  result.low = interval.low;
  result.high = interval.high;
  return result;
}

}  // namespace unroll
