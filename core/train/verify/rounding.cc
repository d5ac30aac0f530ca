// SPDX-License-Identifier: Apache-2.0
#include "core/train/verify/rounding.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

#include "core/ir/ops/row_ops.h"
#include "core/ir/ops/unary_ops.h"
#include "core/support/formats.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/per_node.h"
#include "unroll/ir/row_sums.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr double k_ulps = 4;              // of an elementwise function; an ulp is at most 2 u |v|
constexpr double k_contraction = 4;       // times (u ceil(log2 K) + 2 u) sum |a||b|
constexpr double k_nothing = 0x1p-1000;   // keeps a quotient of zeros finite

// The error allowed for a result however small it is: the smallest normal number, below which it may become zero, or
// some steps between denormal numbers.
double least_error(DType dtype, bool flushes) {
  if (dtype == DType::f32) return flushes ? 0x1p-126 : k_ulps * 0x1p-149;
  return flushes ? 0x1p-1022 : k_ulps * 0x1p-1074;
}

DType wide(DType dtype) { return dtype == DType::f32 ? DType::f64 : dtype; }
Type wide(const Type& type) { return {wide(type.dtype), type.shape}; }
Value wide(Value x) { return x.dtype() == DType::f64 ? x : cast(x, DType::f64); }

Attributes wide_attributes(const Node& node) {
  Attributes a = unclaimed(node);
  if (node.op == Op::cast) a.set("dtype", wide(a.get<DType>("dtype")));
  if (node.op == Op::constant) {
    const auto& value = *a.get<std::shared_ptr<const Tensor>>("value");
    a.set("value", std::make_shared<const Tensor>(value.cast(wide(value.dtype()))));
  }
  return a;
}

bool sums(Op op) { return op == Op::matmul || op == Op::reduce_sum || op == Op::scatter_add; }
// The 16-bit dtype in which a product stores its sums.
std::optional<DType> stored_dtype(const Node& node) {
  if (node.op != Op::matmul || !is_half(node.outputs[0].dtype)) return std::nullopt;
  return node.outputs[0].dtype;
}

// Sums of 16-bit numbers are in f64 too, before a product stores them.
std::vector<Value> append_wide(Graph& target, const Node& node, std::span<const Value> operands,
                               std::shared_ptr<const Graph> body = nullptr) {
  std::vector<Value> in(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(n_operands(node)));
  for (Value& x : in)
    if (sums(node.op) && is_half(x.dtype())) x = wide(x);
  Attributes attributes = wide_attributes(node);
  if (node.op == Op::matmul) attributes.erase("dtype");
  std::vector<Value> results = target.append(node.op, in, std::move(attributes), std::move(body));
  for (Value& result : results)  // random numbers are f32 everywhere
    if (result.dtype() == DType::f32) result = cast(result, DType::f64);
  return results;
}
std::vector<Value> append_stored(Graph& target, const Node& node, std::span<const Value> operands,
                                 std::shared_ptr<const Graph> body = nullptr) {
  std::vector<Value> results = append_wide(target, node, operands, std::move(body));
  if (const auto dtype = stored_dtype(node)) results[0] = cast(results[0], *dtype);
  return results;
}

// First-order bounds of a result's error from those of its operands, e.
using BoundedOperands = std::span<const Bounded>;
Value bound_of(const Bounded& x) { return x.bound ? x.bound : scalar(x.value.graph(), DType::f64, 0); }
Value one_where(Value condition) { return cast(condition, DType::f64); }
Value positive(Value x) { return maximum(x, scalar_like(x, k_nothing)); }

Value sum_of_bounds(BoundedOperands in, Value) { return bound_of(in[0]) + bound_of(in[1]); }
Value same_bound(BoundedOperands in, Value) { return bound_of(in[0]); }
Value larger_bound(BoundedOperands in, Value) {
  return in.size() == 1 ? bound_of(in[0]) : maximum(bound_of(in[0]), bound_of(in[1]));
}
Value of_product(BoundedOperands in, Value) {
  const Value ea = bound_of(in[0]), eb = bound_of(in[1]);
  return abs(in[0].value) * eb + abs(in[1].value) * ea + ea * eb;
}
Value of_quotient(BoundedOperands in, Value out) {
  const Value eb = bound_of(in[1]);
  return (bound_of(in[0]) + abs(out) * eb) / positive(abs(in[1].value) - eb);
}
Value of_exp(BoundedOperands in, Value out) { return abs(out) * expm1(bound_of(in[0])); }
Value of_expm1(BoundedOperands in, Value out) { return (abs(out) + 1) * expm1(bound_of(in[0])); }
Value of_log(BoundedOperands in, Value) {
  const Value e = bound_of(in[0]);
  return e / positive(abs(in[0].value) - e);
}
Value of_log1p(BoundedOperands in, Value) {
  const Value e = bound_of(in[0]);
  return e / positive(in[0].value + 1 - e);
}
Value of_sqrt(BoundedOperands in, Value out) {
  const Value e = bound_of(in[0]);
  return minimum(sqrt(e), e / positive(out));
}
Value of_comparison(BoundedOperands in, Value) {
  return one_where(less_equal(abs(wide(in[0].value) - wide(in[1].value)), bound_of(in[0]) + bound_of(in[1])));
}
Value of_sign(BoundedOperands in, Value) {
  return one_where(less_equal(abs(in[0].value), bound_of(in[0]))) * 2;
}
Value of_select(BoundedOperands in, Value) {
  const Value ea = bound_of(in[1]), eb = bound_of(in[2]), chosen = select(in[0].value, ea, eb);
  if (!in[0].bound) return chosen;
  return chosen + in[0].bound * (abs(wide(in[1].value) - wide(in[2].value)) + ea + eb);
}
const Format& format_of(DType half) { return half == DType::bf16 ? k_bf16 : k_f16; }
// A value near the middle of two neighbors of the format may round to either.
Value of_format(Value e, Value out, const Format& format) {
  const Value off = one_where(less(e * 0, e));
  const double denormal_spacing = std::ldexp(1.0, format.lowest_exponent - format.mantissa);
  return e + off * (abs(wide(out)) * std::ldexp(2.0, -format.mantissa) + denormal_spacing);
}
template <const Format& k_format>
Value of_format(BoundedOperands in, Value out) {
  return of_format(bound_of(in[0]), out, k_format);
}

using Propagate = Value (*)(BoundedOperands in, Value out);
struct Rule {
  Op op;
  Propagate propagate;
  bool rounds;       // the result as well
  double slope = 0;  // instead of propagate: how much the operand's error grows at most
};
// Ops without a slope in the op table.
constexpr std::pair<Op, Propagate> k_unbounded[] = {
    {Op::sign, of_sign},   {Op::exp, of_exp},   {Op::expm1, of_expm1},          {Op::log, of_log},
    {Op::log1p, of_log1p}, {Op::sqrt, of_sqrt}, {Op::round_bf16, of_format<k_bf16>}, {Op::round_f16, of_format<k_f16>},
    {Op::round_tf32, of_format<k_tf32>},
};
constexpr Rule k_rules[] = {
    {Op::is_finite, nullptr, false},
    {Op::add, sum_of_bounds, true},
    {Op::sub, sum_of_bounds, true},
    {Op::mul, of_product, true},
    {Op::div, of_quotient, true},
    {Op::maximum, larger_bound, false},
    {Op::minimum, larger_bound, false},
    {Op::less, of_comparison, false},
    {Op::less_equal, of_comparison, false},
    {Op::equal, of_comparison, false},
    {Op::logical_and, larger_bound, false},
    {Op::logical_or, larger_bound, false},
    {Op::logical_not, larger_bound, false},
    {Op::select, of_select, false},
    {Op::cast, same_bound, true},
};

std::optional<Rule> find_bound_rule(Op op) {
  if (const UnaryOp* unary = find_unary(op)) {
    if (std::isfinite(unary->slope)) return Rule{op, nullptr, unary->rounds, unary->slope};
    for (const auto& [known, propagate] : k_unbounded)
      if (known == op) return Rule{op, propagate, unary->rounds};
    return std::nullopt;
  }
  const auto found = std::find_if(std::begin(k_rules), std::end(k_rules), [&](const Rule& r) { return r.op == op; });
  return found == std::end(k_rules) ? std::nullopt : std::optional(*found);
}

Value propagated(const Rule& rule, BoundedOperands in, Value out) {
  if (rule.slope != 0) return rule.slope == 1 ? bound_of(in[0]) : bound_of(in[0]) * rule.slope;
  return rule.propagate ? rule.propagate(in, out) : Value();
}

// `source` is the dtype that the result has in the graph that is verified.
Bounded elementwise(const Rule& rule, BoundedOperands in, Value out, DType source, bool flushes) {
  const bool exact = std::none_of(in.begin(), in.end(), [](const Bounded& x) { return static_cast<bool>(x.bound); });
  Value bound = exact ? Value() : propagated(rule, in, out);
  if (bound && rule.op == Op::cast && is_half(source)) bound = of_format(bound, out, format_of(source));
  if (rule.rounds && is_float(source)) {
    const Value rounding = abs(out) * (2 * k_ulps * unit_roundoff(source)) + least_error(source, flushes);
    bound = bound ? bound + rounding : rounding;
  }
  return {out, bound};
}

Bounded append_elementwise(Graph& target, const Node& node, BoundedOperands in, bool flushes) {
  std::vector<Value> operands;
  for (const Bounded& x : in) operands.push_back(x.value);
  const std::optional<Rule> rule = find_bound_rule(node.op);
  if (!rule)
    throw Error(ErrorKind::internal, op_info(node.op).name, "has no rounding rule, so its result cannot be verified",
                "Add a row to k_unbounded or k_rules in core/train/verify/rounding.cc");
  return elementwise(*rule, in, append_wide(target, node, operands)[0], node.outputs[0].dtype, flushes);
}

// The number of terms that are added up for an element of the result; 0: none.
std::int64_t terms_of(const Node& node, std::span<const Value> operands) {
  const Shape& first = operands[0].shape();
  switch (node.op) {
    case Op::matmul: return first[first.rank() - (node.attributes.get<bool>("transpose_a") ? 2 : 1)];
    case Op::reduce_sum: return first.elements() / std::max<std::int64_t>(node.outputs[0].shape.elements(), 1);
    case Op::scatter_add: return first.elements();
    default: return 0;
  }
}

// The rounding error of adding up this number of terms of these sizes.
Value sum_rounding(Graph& target, const Node& node, std::span<const Value> operands, bool flushes) {
  const std::int64_t terms = operands.empty() ? 0 : terms_of(node, operands);
  const DType dtype = arithmetic_dtype(node.outputs[0].dtype);
  if (terms == 0 || !is_float(dtype)) return {};
  std::vector<Value> sizes;
  for (const Value x : operands) sizes.push_back(is_float(arithmetic_dtype(x.dtype())) ? abs(wide(x)) : x);
  const double u = unit_roundoff(dtype);
  return append_wide(target, node, sizes)[0] * (k_contraction * u * (tree_levels(terms) + 2)) +
         static_cast<double>(terms) * least_error(dtype, flushes);
}

// A move or a reduction in a fused reduction: it does to the bounds what it does to the values.
Bounded append_row_op(Graph& target, const Node& node, BoundedOperands in, bool flushes) {
  std::vector<Value> operands, bounds;
  bool exact = true;
  for (const Bounded& x : in) {
    operands.push_back(x.value);
    bounds.push_back(broadcast(bound_of(x), x.value.shape()));
    exact = exact && !x.bound;
  }
  const Value bound = exact ? Value() : append_wide(target, node, bounds)[0];
  const Value rounding = sum_rounding(target, node, operands, flushes);
  return {append_wide(target, node, operands)[0], bound && rounding ? bound + rounding : bound ? bound : rounding};
}

// The body of a fused node or a fused reduction.
std::vector<Bounded> append_group(Graph& target, const Node& group, std::span<const Value> operands, bool flushes) {
  const Graph& body = *group.body;
  PerNode<Bounded> values(body);
  for (std::size_t i = 0; i < operands.size(); ++i)
    values[body.inputs()[i].value.node] = {operands[i], {}};
  for (std::size_t id = 0; id < values.size(); ++id) {
    const Node& node = body.nodes()[id];
    if (node.op == Op::input) continue;
    std::vector<Bounded> in;
    for (const ValueId& v : node.inputs) in.push_back(values[v.node]);
    values[id] = node.op == Op::constant ? Bounded{append_wide(target, node, {})[0], {}}
                 : is_row_op(body, node) && !is_elementwise(node.op)
                     ? append_row_op(target, node, in, flushes)
                     : append_elementwise(target, node, in, flushes);
  }
  std::vector<Bounded> results;
  for (const NamedValue& output : body.outputs()) {
    results.push_back(values[output.value.node]);
    const std::int64_t n = group.op == Op::fused_reduction ? rows_per_sum(group, results.size() - 1) : 0;
    if (n == 0) continue;
    const Value x = results.back().value;
    const Shape split = split_rows(x.shape(), n);
    const Bounded rows[] = {{reshape(x, split), reshape(broadcast(bound_of(results.back()), x.shape()), split)}};
    results.back() = append_row_op(target, sum_of_split_rows(group.outputs[results.size() - 1]), rows, flushes);
  }
  return results;
}

Value noisy(Value x, std::mt19937_64& random) {
  if (x.dtype() != DType::f64) return x;
  // The sizes differ, because equal ones cancel: (1 + e)(1 - e) would hide the sensitivity of a mean of equal values.
  std::uniform_real_distribution<double> size(0x1p-25, 0x1.8p-24);
  Tensor factors(x.type());
  for (double& factor : factors.values<double>()) factor = 1 + (random() % 2 == 0 ? size(random) : -size(random));
  return x * constant(x.graph(), std::move(factors));
}

// `noise` may be null.
std::shared_ptr<Graph> copied(const Graph& graph, std::mt19937_64* noise) {
  auto target = std::make_shared<Graph>();
  std::vector<std::vector<Value>> values;
  const auto at = [&](const ValueId& id) { return values[id.node][id.output]; };
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::input) {
      values.push_back({target->input(node.attributes.get<std::string>("name"), wide(node.outputs[0]))});
      continue;
    }
    std::vector<Value> operands;
    for (const ValueId& id : node.inputs) operands.push_back(noise && sums(node.op) ? noisy(at(id), *noise) : at(id));
    values.push_back(append_stored(*target, node, operands, node.body ? copied(*node.body, noise) : nullptr));
    const std::optional<Rule> rule = find_bound_rule(node.op);
    const bool rounds = rule && rule->rounds && node.op != Op::cast;  // whole numbers mostly, which decide what happens
    if (noise && (sums(node.op) || rounds)) values.back()[0] = noisy(values.back()[0], *noise);
  }
  for (const NamedValue& output : graph.outputs()) target->output(output.name, at(output.value));
  return target;
}

}  // namespace

std::size_t n_operands(const Node& node) {
  if (node.op != Op::gradient) return node.inputs.size();
  return node.attributes.get<std::int64_t>("n_inputs") + node.attributes.get<Ints>("d_outputs").size();
}

Attributes unclaimed(const Node& node) {
  Attributes attributes = node.attributes;
  for (const char* name : {"claimed", "saved_bytes", "scratch_bytes", "format", "tf32"}) attributes.erase(name);
  return attributes;
}

double unit_roundoff(DType dtype) { return dtype == DType::f64 ? 0x1p-53 : 0x1p-24; }
double tree_levels(std::int64_t terms) {
  return std::ceil(std::log2(static_cast<double>(std::max<std::int64_t>(terms, 2))));
}

std::shared_ptr<Graph> widened(const Graph& graph) { return copied(graph, nullptr); }

std::shared_ptr<Graph> with_rounding_noise(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return copied(graph, &random);
}

bool is_whole(const Node& node) { return op_info(node.op).kind == OpKind::composite; }

std::vector<Bounded> append_bounded(Graph& target, const Node& node, std::span<const Value> operands, bool flushes) {
  if (node.op == Op::fused || node.op == Op::fused_reduction) return append_group(target, node, operands, flushes);
  if (find_bound_rule(node.op)) {
    std::vector<Bounded> in;
    for (const Value x : operands) in.push_back({x, {}});
    return {append_elementwise(target, node, in, flushes)};
  }
  const std::vector<Value> sums = append_wide(target, node, operands);
  std::vector<Bounded> results;
  for (const Value result : sums) results.push_back({result, {}});
  if (const Value rounding = sum_rounding(target, node, operands, flushes)) results[0].bound = rounding;
  if (const auto stored = stored_dtype(node)) {
    results[0].value = cast(results[0].value, *stored);
    if (results[0].bound) results[0].bound = of_format(results[0].bound, results[0].value, format_of(*stored));
  }
  return results;
}

}  // namespace unroll
