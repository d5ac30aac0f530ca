// SPDX-License-Identifier: Apache-2.0
#include "unroll/passes/work.h"

#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

double elements(const Type& type) { return static_cast<double>(type.shape.elements()); }

double matmul_flop_of(const Graph& graph, const Node& node) {
  const Shape& a = graph.type(node.inputs[0]).shape;
  const bool transposed = node.attributes.get_or<bool>("transpose_a", false);
  return 2 * elements(node.outputs[0]) * static_cast<double>(a[a.rank() - (transposed ? 2 : 1)]);
}

// The sum of a rule over all nodes of the graph. Loops count their steps.
template <class Rule>
double sum_over(const Graph& graph, Rule&& rule) {
  double sum = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::scan) sum += static_cast<double>(scan_layout(node).steps) * sum_over(*node.body, rule);
    else if (node.op == Op::fused || node.op == Op::fused_reduction) sum += sum_over(*node.body, rule);
    else sum += rule(graph, node);
  }
  return sum;
}

double flop_of(const Graph& graph, const Node& node) {
  if (node.op == Op::matmul) return matmul_flop_of(graph, node);
  if (op_info(node.op).tier == OpTier::composite || node.op == Op::gradient)
    return graph_flop(*composite_body(graph, node));
  switch (op_info(node.op).kind) {
    case OpKind::reduce: return elements(graph.type(node.inputs[0]));
    case OpKind::source:
    case OpKind::move:
    case OpKind::index: return 0;
    default: break;
  }
  double sum = 0;
  for (const Type& type : node.outputs) sum += elements(type);
  return is_elementwise(node.op) && op_info(node.op).cost != OpCost::free ? sum : 0;
}

}  // namespace

double graph_flop(const Graph& graph) { return sum_over(graph, flop_of); }

double matmul_flop(const Graph& graph) {
  return sum_over(graph, [](const Graph& within, const Node& node) {
    if (node.op == Op::matmul) return matmul_flop_of(within, node);
    return op_info(node.op).tier == OpTier::composite ? matmul_flop(*composite_body(within, node)) : 0;
  });
}

NodeWork node_work(const Graph& graph, const Node& node) {
  NodeWork work;
  if (node.op == Op::scan) work.flop = static_cast<double>(scan_layout(node).steps) * graph_flop(*node.body);
  else if (node.op == Op::fused || node.op == Op::fused_reduction) work.flop = graph_flop(*node.body);
  else work.flop = flop_of(graph, node);
  for (const ValueId& id : node.inputs) work.bytes += static_cast<double>(graph.type(id).bytes());
  for (const Type& type : node.outputs) work.bytes += static_cast<double>(type.bytes());
  return work;
}

}  // namespace unroll
