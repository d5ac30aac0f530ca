// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "core/autodiff/gradient_body.h"
#include "core/ir/ops/composite.h"
#include "unroll/support/error.h"

namespace unroll {

std::vector<Type> input_types(const Graph& graph, const Node& node) {
  std::vector<Type> types;
  for (const ValueId id : node.inputs) types.push_back(graph.type(id));
  return types;
}

std::shared_ptr<const Graph> composite_body(const Graph& graph, const Node& node) {
  if (node.op == Op::gradient) return gradient_body(graph, node);
  if (op_info(node.op).tier != OpTier::composite)
    throw Error(ErrorKind::graph, "composite_body",
                "op '" + std::string(op_info(node.op).name) + "' is not a composite");
  return build_composite(node.op, input_types(graph, node), node.attributes);
}

}  // namespace unroll
