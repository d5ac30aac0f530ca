// SPDX-License-Identifier: Apache-2.0
#include "core/ir/ops/composite.h"

#include <string>

#include "core/ir/ops/op_map.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

OpMap<const Composite*> make_composites() {
  OpMap<const Composite*> table;
  for (const auto rows : {recurrent_composites(), layer_composites(), convolution_composites(),
                          attention_composites(), loss_composites(),
                          update_composites()})
    for (const Composite& row : rows) table.set(row.op, &row);
  return table;
}

const Composite& composite_of(Op op) {
  const Composite* composite = find_composite(op);
  if (!composite) throw Error(ErrorKind::graph, op_info(op).name, "is not a composite and has no body");
  return *composite;
}

std::vector<Value> append_body(Graph& graph, const Composite& composite, std::span<const Type> inputs,
                               const Attributes& attributes) {
  std::vector<Value> in;
  for (const Type& type : inputs) in.push_back(graph.input("in" + std::to_string(in.size()), type));
  return composite.body(in, attributes);
}

}  // namespace

const Composite* find_composite(Op op) {
  static const OpMap<const Composite*> table = make_composites();
  return table.find(op);
}

std::vector<Type> composite_types(const ShapeQuery& query) {
  const Composite& composite = composite_of(query.op);
  if (composite.require) composite.require(query);
  Graph graph;
  std::vector<Type> types;
  for (const Value& result : append_body(graph, composite, query.inputs, query.attributes))
    types.push_back(result.type());
  return types;
}

std::shared_ptr<const Graph> build_composite(Op op, std::span<const Type> inputs, const Attributes& attributes) {
  const Composite& composite = composite_of(op);
  auto graph = std::make_shared<Graph>();
  const std::vector<Value> out = append_body(*graph, composite, inputs, attributes);
  for (std::size_t i = 0; i < out.size(); ++i) graph->output("out" + std::to_string(i), out[i]);
  return graph;
}

}  // namespace unroll
