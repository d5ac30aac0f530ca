// SPDX-License-Identifier: Apache-2.0
#include "tests/support/faulty_backend.h"

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

void add_faults(const Graph& graph, const std::vector<std::int32_t>& around, std::vector<KernelFault>& list) {
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (node.op == Op::input || node.op == Op::constant) continue;
    std::vector<std::int32_t> path = around;
    path.push_back(id);
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      if (is_float(node.outputs[k].dtype) && node.outputs[k].shape.elements() > 0)
        list.push_back({.path = path, .output = static_cast<std::int32_t>(k)});
    if (node.op == Op::scan) add_faults(*node.body, path, list);
  }
}

// Changed by at least 1, and in sign.
Value broken(Value x, std::int64_t element) {
  Tensor at(DType::b8, x.shape());
  at.set(element, 1);
  const Value one = scalar_like(x, 1), zero = scalar_like(x, 0);
  return select(constant(x.graph(), std::move(at)), neg(x) - select(less(x, zero), neg(one), one), x);
}

}  // namespace

std::vector<KernelFault> possible_faults(const Graph& lowered) {
  std::vector<KernelFault> list;
  add_faults(lowered, {}, list);
  return list;
}

std::shared_ptr<const Graph> with_fault(const Graph& graph, const KernelFault& fault) {
  const std::int32_t at = fault.path.front();
  if (at >= static_cast<std::int32_t>(graph.nodes().size())) return nullptr;
  const Node& there = graph.node(at);
  const bool inside = fault.path.size() > 1;
  if (inside && there.op != Op::scan) return nullptr;
  if (!inside && (fault.output >= static_cast<std::int32_t>(there.outputs.size()) ||
                  fault.element >= there.outputs[static_cast<std::size_t>(fault.output)].shape.elements()))
    return nullptr;
  auto target = std::make_shared<Graph>();
  std::vector<std::vector<Value>> values;
  const auto value_of = [&](const ValueId& id) {
    return values[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)];
  };
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (node.op == Op::input) {
      values.push_back({target->input(node.attributes.get<std::string>("name"), node.outputs[0])});
      continue;
    }
    std::vector<Value> operands;
    for (const ValueId& v : node.inputs) operands.push_back(value_of(v));
    std::shared_ptr<const Graph> body = node.body;
    if (id == at && inside) {
      body = with_fault(*body, {.path = {fault.path.begin() + 1, fault.path.end()},
                               .output = fault.output,
                               .element = fault.element});
      if (!body) return nullptr;
    }
    values.push_back(target->append(node.op, operands, node.attributes, body));
    if (id != at || inside) continue;
    Value& x = values.back()[static_cast<std::size_t>(fault.output)];
    x = broken(x, fault.element);
  }
  for (const NamedValue& output : graph.outputs()) target->output(output.name, value_of(output.value));
  return target;
}

std::shared_ptr<const Graph> numbered(const Graph& lowered) {
  return with_bodies(lowered, [](const Graph& graph) { return drop_dead(graph); });
}

std::unique_ptr<Executable> FaultyBackend::compile(std::shared_ptr<const Plan> plan) {
  const bool meant = !fault_.where || fault_.where(*plan->graph);
  const auto graph = meant ? with_fault(*numbered(*plan->graph), fault_) : nullptr;
  if (!graph) return inner_.compile(std::move(plan));
  ++n_faulty_;
  return inner_.compile(plan_memory(graph, describe(), {}));
}

}  // namespace unroll::testing
