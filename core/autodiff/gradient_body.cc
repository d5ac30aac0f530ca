// SPDX-License-Identifier: Apache-2.0
// The body of a gradient is derived, not written by hand.
#include "core/autodiff/gradient_body.h"

#include <string>
#include <vector>

#include "core/ir/ops/composite.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/support/error.h"

namespace unroll {

std::shared_ptr<const Graph> gradient_graph(const Graph& forward, std::span<const std::int64_t> d_outputs,
                                            std::span<const std::int64_t> d_inputs) {
  auto graph = std::make_shared<Graph>();
  std::vector<Value> in, outputs, cotangents, wrt;
  for (const NamedValue& input : forward.inputs())
    in.push_back(graph->input("in" + std::to_string(in.size()), forward.type(input.value)));
  for (const std::int64_t k : d_outputs)
    cotangents.push_back(
        graph->input("d_out" + std::to_string(k), forward.type(forward.outputs()[k].value)));
  const std::vector<Value> out = inline_graph(*graph, forward, in);
  for (const std::int64_t k : d_outputs) outputs.push_back(out[k]);
  for (const std::int64_t k : d_inputs) wrt.push_back(in[k]);
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

}  // namespace unroll
