// SPDX-License-Identifier: Apache-2.0
// Bodies of composite and gradient nodes. The body of a gradient is derived, not written by hand.
#include <string>
#include <vector>

#include "core/autodiff/gradient_body.h"
#include "core/ir/composite.h"
#include "unroll/autodiff.h"
#include "unroll/error.h"

namespace unroll {

namespace {

std::vector<Type> input_types(const Graph& graph, const Node& node) {
  std::vector<Type> types;
  for (const ValueId id : node.inputs) types.push_back(graph.type(id));
  return types;
}

}  // namespace

std::shared_ptr<const Graph> gradient_graph(const Graph& forward, std::span<const std::int64_t> d_outputs,
                                            std::span<const std::int64_t> d_inputs) {
  auto graph = std::make_shared<Graph>();
  std::vector<Value> in, outputs, cotangents, wrt;
  for (const NamedValue& input : forward.inputs())
    in.push_back(graph->input("in" + std::to_string(in.size()), forward.type(input.value)));
  for (const std::int64_t k : d_outputs)
    cotangents.push_back(
        graph->input("d_out" + std::to_string(k), forward.type(forward.outputs()[static_cast<std::size_t>(k)].value)));
  const std::vector<Value> out = inline_graph(*graph, forward, in);
  for (const std::int64_t k : d_outputs) outputs.push_back(out[static_cast<std::size_t>(k)]);
  for (const std::int64_t k : d_inputs) wrt.push_back(in[static_cast<std::size_t>(k)]);
  const std::vector<Value> gradients = differentiate(outputs, cotangents, wrt);
  for (std::size_t i = 0; i < gradients.size(); ++i) graph->output("d_in" + std::to_string(d_inputs[i]), gradients[i]);
  return graph;
}

std::shared_ptr<const Graph> gradient_body(const Graph& graph, const Node& node) {
  const OpInfo* of = find_op(node.attributes.get<std::string>("of"));
  if (!of || of->tier != OpTier::composite)
    throw Error(ErrorKind::graph, "gradient",
                "is of '" + node.attributes.get<std::string>("of") + "', which is not a composite");
  Attributes attributes = node.attributes;
  for (const char* name : {"of", "d_outputs", "d_inputs", "n_inputs"}) attributes.erase(name);
  const std::vector<Type> types = input_types(graph, node);
  const auto n_inputs = static_cast<std::size_t>(node.attributes.get<std::int64_t>("n_inputs"));
  const auto forward = build_composite(of->op, std::span(types).first(n_inputs), attributes);
  return gradient_graph(*forward, node.attributes.get<Ints>("d_outputs"), node.attributes.get<Ints>("d_inputs"));
}

std::shared_ptr<const Graph> composite_body(const Graph& graph, const Node& node) {
  if (node.op == Op::gradient) return gradient_body(graph, node);
  if (op_info(node.op).tier != OpTier::composite)
    throw Error(ErrorKind::graph, "composite_body",
                "op '" + std::string(op_info(node.op).name) + "' is not a composite");
  return build_composite(node.op, input_types(graph, node), node.attributes);
}

}  // namespace unroll
