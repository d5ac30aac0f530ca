// SPDX-License-Identifier: Apache-2.0
#include "core/passes/rewrite.h"

#include <cstring>

#include "unroll/support/error.h"

namespace unroll {

namespace {

PerNode<bool> live_nodes(const Graph& graph, std::span<const ValueId> more) {
  PerNode<bool> live(graph);
  for (const NamedValue& output : graph.outputs()) live[output.value.node] = true;
  for (const ValueId& id : more) live[id.node] = true;
  for (std::size_t i = live.size(); i-- > 0;)
    if (live[i])
      for (const ValueId& id : graph.nodes()[i].inputs) live[id.node] = true;
  return live;
}

}  // namespace

std::shared_ptr<Graph> rewrite(const Graph& source, const RewriteRule& rule, std::span<const ValueId> more) {
  auto target = std::make_shared<Graph>();
  PerNode<std::vector<Value>> map(source);
  for (const NamedValue& input : source.inputs())
    map[input.value.node] = {target->input(input.name, source.type(input.value))};
  const auto at = [&](const ValueId& id) {
    const Value value = map[id.node][id.output];
    if (!value) throw Error(ErrorKind::internal, "rewrite", "a pass dropped a value that is still read");
    return value;
  };
  const PerNode<bool> live = live_nodes(source, more);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (!live[i] || !map[i].empty()) continue;
    const Node& node = source.nodes()[i];
    operands.clear();
    for (const ValueId& id : node.inputs) operands.push_back(at(id));
    const OriginScope of_node(*target, node.origin);
    map[i] = rule({source, static_cast<std::int32_t>(i), node, operands, *target});
    if (map[i].empty()) map[i] = target->append_copy(source, node, operands);
  }
  for (const NamedValue& output : source.outputs()) target->output(output.name, at(output.value));
  for (const ValueId& id : more) target->output("extra" + std::to_string(target->outputs().size()), at(id));
  return target;
}

std::shared_ptr<Graph> drop_dead(const Graph& source) {
  return rewrite(source, [](const RewriteNode&) { return std::vector<Value>{}; });
}

std::vector<Value> copy_node(const RewriteNode& at, std::shared_ptr<const Graph> body) {
  return at.target.append(at.node.op, at.operands, at.node.attributes, std::move(body));
}

std::shared_ptr<const Graph> with_bodies(const Graph& source, const GraphPass& pass, PassLog* log) {
  bool any = false;
  for (const Node& node : source.nodes()) any |= node.op == Op::scan;
  if (!any) return pass(source);
  const auto inner = rewrite(source, [&](const RewriteNode& at) -> std::vector<Value> {
    if (at.node.op != Op::scan) return {};
    const InLoop in_loop(log, at.source, at.node);
    return copy_node(at, with_bodies(*at.node.body, pass, log));
  });
  return pass(*inner);
}

PerValue<int> count_uses(const Graph& graph) {
  PerValue<int> uses(graph);
  for (const Node& node : graph.nodes())
    for (const ValueId& id : node.inputs) ++uses[id];
  for (const NamedValue& output : graph.outputs()) ++uses[output.value];
  return uses;
}

bool is_splat(const Value& value, double& element) {
  const Node& node = value.node();
  if (node.op == Op::broadcast || node.op == Op::reshape) return is_splat(value.graph().value(node.inputs[0]), element);
  if (node.op != Op::constant) return false;
  const Tensor& tensor = *node.attributes.get<std::shared_ptr<const Tensor>>("value");
  if (tensor.elements() == 0) return false;
  const std::size_t size = dtype_bytes(tensor.dtype());
  for (std::size_t i = size; i < tensor.bytes().size(); i += size)
    if (std::memcmp(tensor.bytes().data(), tensor.bytes().data() + i, size) != 0) return false;
  element = tensor.at(0);
  return true;
}

bool is_splat_of(const Value& value, double wanted) {
  double element = 0;
  return is_splat(value, element) && element == wanted;
}

}  // namespace unroll
