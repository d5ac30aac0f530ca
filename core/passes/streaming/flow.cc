// SPDX-License-Identifier: Apache-2.0
#include "core/passes/streaming/flow.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/passes/rewrite.h"
#include "unroll/support/error.h"

namespace unroll::streaming {

namespace {

constexpr int k_max_expansions = 32;  // deeper composites are a cycle of definitions

bool is_composite(const Node& node) { return op_info(node.op).kind == OpKind::composite; }

std::shared_ptr<const Graph> in_primitives(std::shared_ptr<const Graph> graph) {
  for (int k = 0; k < k_max_expansions && std::ranges::any_of(graph->nodes(), is_composite); ++k)
    graph = rewrite(*graph, [](const RewriteNode& at) -> std::vector<Value> {
      if (!is_composite(at.node)) return {};
      return inline_graph(at.target, *composite_body(at.source, at.node), at.operands);
    });
  return drop_dead(*graph);
}

// Attributes that may depend on T; the shapes show how, or a rule compares them.
bool may_differ(Op op, const std::string& attribute) {
  static const std::set<std::pair<Op, std::string>> k_may{{Op::reshape, "shape"}, {Op::broadcast, "shape"},
                                                         {Op::iota, "shape"},    {Op::constant, "value"},
                                                         {Op::slice, "start"},   {Op::slice, "size"},
                                                         {Op::scan, "steps"}};
  return k_may.contains({op, attribute});
}

bool same_attributes(const Node& a, const Node& b) {
  const auto &of_a = a.attributes.all(), &of_b = b.attributes.all();
  return std::ranges::equal(of_a, of_b, [&](const auto& x, const auto& y) {
    return x.first == y.first && (may_differ(a.op, x.first) || x.second == y.second);
  });
}

bool same_body(const Node& a, const Node& b) {
  return !a.body == !b.body && (!a.body || graph_hash(*a.body) == graph_hash(*b.body));
}

Flow repeated(int axis, std::int64_t one, std::int64_t two) {
  const std::int64_t common = std::gcd(two - one, k_steps), up = (two - one) / common, down = k_steps / common;
  const std::int64_t rest = one - k_steps * up / down;
  return {.kind = Flow::Kind::repeated, .axis = axis, .up = up, .down = down,
          .length = [=](std::int64_t T) { return T * up / down + rest; }};
}

Flow flow_of_constant(const FlowAt& at) {
  const auto& one = at.node.attributes.get<std::shared_ptr<const Tensor>>("value");
  const auto& two = at.other.attributes.get<std::shared_ptr<const Tensor>>("value");
  const int axis = time_axis(one->shape(), two->shape());
  if (one == two) return {};
  if (axis == -1)
    return one->dtype() == two->dtype() && std::ranges::equal(one->bytes(), two->bytes())
               ? Flow{}
               : whole("a constant depends on the number of steps");
  for (std::int64_t k = 1; k < one->elements(); ++k)
    if (one->at(k) != one->at(0)) return whole("a constant has a value for each step, such as an order of the steps");
  return repeated(axis, one->shape()[axis], two->shape()[axis]);
}

// For a node that reads repeated values: positions that repeat move as those of a sequence do. The result repeats too,
// unless it has other values at its start or end.
NodeFlow flow_of_repeated(const FlowAt& at) {
  FlowAt sequences = at;
  sequences.operands = moving(at.operands);
  NodeFlow flow = flow_of_sequences(sequences);
  const bool has_ends = at.node.op == Op::pad || at.node.op == Op::concat || at.node.op == Op::scan;
  for (Flow& f : flow.outputs) {
    if (!f.is_sequence() || f.outer > 1 || has_ends || (f.delay != 0 && at.node.op != Op::slice)) continue;
    f.kind = Flow::Kind::repeated;
    f.delay = 0;
  }
  return flow;
}

// For a node with fixed operands.
Flow flow_of_fixed(const FlowAt& at, std::size_t output) {
  if (at.node.op == Op::constant) return flow_of_constant(at);
  const Shape &one = at.node.outputs[output].shape, &two = at.other.outputs[output].shape;
  const int axis = time_axis(one, two);
  const bool is_repeated =
      at.node.op == Op::broadcast || (at.node.op == Op::iota && at.node.attributes.get<std::int64_t>("axis") != axis);
  if (axis >= 0 && is_repeated) return repeated(axis, one[axis], two[axis]);
  if (axis != -1 || at.node.attributes != at.other.attributes)
    return whole(at.text() + " depends on the position in time, or on the number of steps");
  return {};
}

NodeFlow flow_of(const FlowAt& at) {
  if (at.node.op == Op::input) {
    const int axis = time_axis(at.node.outputs[0].shape, at.other.outputs[0].shape);
    if (axis < 0 || at.node.outputs[0].shape[axis] != k_steps)
      throw Error(ErrorKind::usage, k_who,
                  "input '" + at.node.attributes.get<std::string>("name") +
                      "' must have one axis with a position for each step; got " + at.text());
    return {0, {{.kind = Flow::Kind::sequence, .axis = axis, .length = [](std::int64_t T) { return T; }}}};
  }
  for (const Flow& operand : at.operands)
    if (operand.kind == Flow::Kind::whole) return at.refused(operand.why);
  if (!same_attributes(at.node, at.other) || !same_body(at.node, at.other))
    return at.refused(at.text() + " depends on the number of steps by more than its shape");
  NodeFlow flow;
  const auto is_fixed = [](const Flow& f) { return f.kind == Flow::Kind::fixed; };
  if (std::ranges::all_of(at.operands, is_fixed)) {
    for (std::size_t k = 0; k < at.node.outputs.size(); ++k) flow.outputs.push_back(flow_of_fixed(at, k));
    return flow;
  }
  flow = std::ranges::any_of(at.operands, &Flow::is_sequence) ? flow_of_sequences(at) : flow_of_repeated(at);
  for (std::size_t k = 0; k < flow.outputs.size(); ++k) {
    const Flow& f = flow.outputs[k];
    if (f.axis >= 0 && time_axis(at.node.outputs[k].shape, at.other.outputs[k].shape) != f.axis)
      return at.refused(at.text() + " combines steps with each other");
  }
  return flow;
}

// "T", "T/2", "2T", for sizes with T = k_steps and twice that.
std::string size_text(std::int64_t one, std::int64_t two) {
  if (one == two) return std::to_string(one);
  const std::int64_t slope = two - one;
  if (slope >= k_steps) return (slope == k_steps ? "" : std::to_string(slope / k_steps)) + "T";
  return slope > 0 ? "T/" + std::to_string(k_steps / slope) : "?";
}

}  // namespace

std::vector<Flow> moving(std::vector<Flow> operands) {
  if (std::ranges::none_of(operands, &Flow::is_sequence))
    for (Flow& f : operands)
      if (f.kind == Flow::Kind::repeated) f.kind = Flow::Kind::sequence;
  return operands;
}

Flow whole(std::string why) { return {.kind = Flow::Kind::whole, .why = std::move(why)}; }

int time_axis(const Shape& one, const Shape& two) {
  int found = one.rank() == two.rank() ? -1 : -2;
  for (int axis = 0; axis < std::min(one.rank(), two.rank()); ++axis)
    if (one[axis] != two[axis]) found = found == -1 ? axis : -2;
  return found;
}

std::string FlowAt::text() const {
  const Type &a = node.outputs[0], &b = other.outputs[0];
  std::string text;
  for (int axis = 0; axis < a.shape.rank() && axis < b.shape.rank(); ++axis)
    text += (axis > 0 ? "," : "") + size_text(a.shape[axis], b.shape[axis]);
  const std::string layer = node.origin.layer.empty() ? "" : " of layer '" + node.origin.layer + "'";
  return std::string(op_info(node.op).name) + " " + std::string(dtype_name(a.dtype)) + "[" + text + "]" + layer;
}

const Flow& FlowAt::first_sequence() const { return *std::ranges::find_if(operands, &Flow::is_sequence); }

NodeFlow FlowAt::refused(const std::string& why) const {
  return {0, std::vector<Flow>(node.outputs.size(), whole(why))};
}

NodeFlow FlowAt::aligned(int axis) const {
  const Flow& first = first_sequence();
  NodeFlow flow;
  flow.align = first.delay;
  for (const Flow& operand : operands) {
    if (!operand.is_sequence()) continue;
    if (operand.up != first.up || operand.down != first.down || operand.outer != first.outer)
      return refused(text() + " combines sequences of different rates");
    flow.align = std::max(flow.align, operand.delay);
  }
  Flow result = first;
  result.axis = axis;
  result.delay = flow.align;
  flow.outputs.assign(node.outputs.size(), result);
  return flow;
}

Lengths lengths_of(const std::function<std::shared_ptr<const Graph>(std::int64_t)>& graph_of) {
  Lengths graphs{in_primitives(graph_of(k_steps)), in_primitives(graph_of(2 * k_steps))};
  const auto same = [](const Node& a, const Node& b) { return a.op == b.op && a.inputs == b.inputs; };
  if (!std::ranges::equal(graphs.one->nodes(), graphs.two->nodes(), same))
    throw Error(ErrorKind::unsupported, k_who, "the number of steps determines the nodes of the graph",
                "Loops must be scans, not copies of their step");
  return graphs;
}

PerNode<NodeFlow> find_flows(const Lengths& graphs) {
  PerNode<NodeFlow> flows(*graphs.one);
  for (std::size_t n = 0; n < flows.size(); ++n) {
    FlowAt at{*graphs.one, *graphs.two, graphs.one->nodes()[n], graphs.two->nodes()[n], {}};
    for (const ValueId& id : at.node.inputs) at.operands.push_back(flows[id.node].outputs[id.output]);
    flows[n] = flow_of(at);
  }
  return flows;
}

}  // namespace unroll::streaming
