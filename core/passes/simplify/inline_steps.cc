// SPDX-License-Identifier: Apache-2.0
// Replaces one-step scans by their bodies, and binds constants into loops, so that later passes and backends see them.
#include "core/ir/ops/scan_parts.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// The body in the place of a scan of one step.
std::vector<Value> inline_step(const RewriteNode& at) {
  const ScanLayout l = scan_layout(at.node);
  if (l.steps != 1 || l.has_lengths || l.has_reset || l.packed) return {};
  std::vector<Value> inputs(at.operands.begin(), at.operands.end());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (scan_role(l, i) == ScanRole::sequence) inputs[i] = reshape(inputs[i], inputs[i].shape().removed(0));
  std::vector<Value> outputs = inline_graph(at.target, *at.node.body, inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (!is_state(l, k)) outputs[k] = reshape(outputs[k], outputs[k].shape().inserted(0, 1));
  return outputs;
}

bool is_constant(const Value& value) { return value.node().op == Op::constant; }

// Operands that are constants of the graph become constants of the body.
std::vector<Value> bind_constants_of(const RewriteNode& at) {
  const ScanLayout layout = scan_layout(at.node);
  const Graph& body = *at.node.body;
  ScanBuilder loop(ScanParts(at.node, at.operands));
  std::vector<Value> inputs;
  std::vector<std::size_t> bound;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const ScanRole role = scan_role(layout, i);
    const bool binds = role == ScanRole::constant && is_constant(at.operands[i]);
    if (binds) bound.push_back(i);
    inputs.push_back(binds ? Value() : loop.add(role, at.operands[i], body.type(body.inputs()[i].value)));
  }
  if (bound.empty()) return {};
  for (const std::size_t i : bound)
    inputs[i] = loop.step().append_one(Op::constant, {}, at.operands[i].node().attributes);
  return loop.emit(inline_graph(loop.step(), body, inputs));
}

}  // namespace

std::shared_ptr<const Graph> inline_steps(const Graph& graph, PassLog* log) {
  return with_bodies(graph, [log](const Graph& g) -> std::shared_ptr<const Graph> {
    return rewrite(g, [log](const RewriteNode& at) {
      if (at.node.op != Op::scan) return std::vector<Value>{};
      const InLoop in_loop(log, at.source, at.node);
      auto values = inline_step(at);
      if (log && !values.empty()) log->add("replaced the loop by its body", "it has one step");
      return values;
    });
  }, log);
}

std::shared_ptr<const Graph> bind_constants(const Graph& graph) {
  // Outer loops first: what they bind, inner ones see as constants of their surroundings.
  const auto bound = rewrite(graph, [](const RewriteNode& at) {
    return at.node.op == Op::scan ? bind_constants_of(at) : std::vector<Value>{};
  });
  return rewrite(*bound, [](const RewriteNode& at) -> std::vector<Value> {
    return at.node.op == Op::scan ? copy_node(at, bind_constants(*at.node.body)) : std::vector<Value>{};
  });
}

}  // namespace unroll
