// SPDX-License-Identifier: Apache-2.0
// Replaces one-step scans by their bodies, and binds constants into loops, so that later passes and backends see them.
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// The body in the place of a scan of one step.
std::vector<Value> inline_step(const RewriteNode& at) {
  const ScanLayout l = scan_layout(at.node);
  if (l.steps != 1 || l.has_lengths || l.has_reset || l.packed) return {};
  const auto n_states = static_cast<std::size_t>(l.n_states);
  const auto n_rows = n_states + static_cast<std::size_t>(l.n_sequences);
  std::vector<Value> inputs(at.operands.begin(), at.operands.end());
  for (std::size_t i = n_states; i < n_rows; ++i) inputs[i] = reshape(inputs[i], inputs[i].shape().removed(0));
  std::vector<Value> outputs = inline_graph(at.target, *at.node.body, inputs);
  for (std::size_t k = n_states; k < outputs.size(); ++k)
    outputs[k] = reshape(outputs[k], outputs[k].shape().inserted(0, 1));
  return outputs;
}

bool is_constant(const Value& value) { return value.node().op == Op::constant; }

// Operands that are constants of the graph become constants of the body.
std::vector<Value> bind_constants_of(const RewriteNode& at) {
  const ScanLayout l = scan_layout(at.node);
  const auto first = static_cast<std::size_t>(l.n_states + l.n_sequences);
  const auto end = first + static_cast<std::size_t>(l.n_constants);
  auto body = std::make_shared<Graph>();
  std::vector<Value> operands, inputs;
  for (std::size_t i = 0; i < at.operands.size(); ++i) {
    const Value& operand = at.operands[i];
    const bool bound = i >= first && i < end && is_constant(operand);
    if (!bound) operands.push_back(operand);
    if (i >= end) continue;  // lengths and reset are no inputs of the body
    const NamedValue& input = at.node.body->inputs()[i];
    inputs.push_back(bound ? Value() : body->input(input.name, at.node.body->type(input.value)));
  }
  if (operands.size() == at.operands.size()) return {};
  for (std::size_t i = first; i < end; ++i)
    if (!inputs[i]) inputs[i] = body->append(Op::constant, {}, at.operands[i].node().attributes)[0];
  const std::vector<Value> outputs = inline_graph(*body, *at.node.body, inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) body->output(at.node.body->outputs()[k].name, outputs[k]);
  return at.target.append(Op::scan, operands, at.node.attributes, std::move(body));
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
