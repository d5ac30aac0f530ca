// SPDX-License-Identifier: Apache-2.0
// Emits the nodes of a graph: constants, ops with an ONNX form, and composites by their definition.
#include <algorithm>
#include <cstring>

#include "frontends/onnx/write/emitter.h"
#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

void require_same_structure(const Builds& builds) {
  const auto refuse = [] {
    throw Error(ErrorKind::unsupported, "export", "the structure of the network depends on its sizes",
                "ONNX models are written for all sizes");
  };
  for (const Graph* graph : builds) {
    if (graph->nodes().size() != builds[0]->nodes().size()) refuse();
    for (std::size_t k = 0; k < graph->nodes().size(); ++k) {
      const Node &a = graph->nodes()[k], &b = builds[0]->nodes()[k];
      if (a.op != b.op || a.inputs != b.inputs || a.outputs.size() != b.outputs.size()) refuse();
    }
  }
}

std::vector<bool> needed_nodes(const Graph& graph) {
  std::vector<bool> needed(graph.nodes().size());
  for (const NamedValue& output : graph.outputs()) needed[output.value.node] = true;
  for (std::size_t k = needed.size(); k-- > 0;)
    if (needed[k])
      for (const ValueId& input : graph.nodes()[k].inputs) needed[input.node] = true;
  return needed;
}

const Tensor& tensor_of(const Graph& graph, std::int32_t id) {
  return *graph.node(id).attributes.get<std::shared_ptr<const Tensor>>("value");
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

bool has_one_value(const Tensor& t) {
  for (std::int64_t i = 1; i < t.elements(); ++i)
    if (t.at(i) != t.at(0)) return false;
  return t.elements() > 0;
}

// Emits a number that depends on the sizes, such as the count of a mean.
std::string number_of_sizes(const Site& at) {
  std::vector<std::int64_t> values;
  for (const Graph* graph : at.builds) {
    const double value = tensor_of(*graph, at.id).at(0);
    values.push_back(static_cast<std::int64_t>(value));
    if (static_cast<double>(values.back()) != value) at.refuse("a constant depends on the sizes");
  }
  const std::string size = at.emit.node("Squeeze", {at.emit.size(at.fit(values))});
  return at.emit.cast(size, at.out_dtype());
}

// Emits a constant that all builds share. If it varies, it must be a number, or one number everywhere.
std::vector<Operand> constant(const Site& at) {
  const auto first = at.node().attributes.get<std::shared_ptr<const Tensor>>("value");
  bool is_same = true, is_one_value = true, has_same_value = true;
  for (const Graph* graph : at.builds) {
    const Tensor& tensor = tensor_of(*graph, at.id);
    is_same = is_same && same_bytes(tensor, *first);
    is_one_value = is_one_value && has_one_value(tensor);
    has_same_value = has_same_value && is_one_value && tensor.at(0) == first->at(0);
  }
  if (is_same) return {{.tensor = first}};
  if (!is_one_value) at.refuse("a constant depends on the sizes");
  const std::string number = has_same_value ? at.emit.scalar(first->dtype(), first->at(0)) : number_of_sizes(at);
  if (first->shape().rank() == 0) return {{number}};
  return {{at.emit.node("Expand", {number, at.emit.shape(at.out_shape())})}};
}

// Emits a node by its definition, which has the node's inputs and outputs.
std::vector<Operand> by_body(const Site& at) {
  std::vector<std::shared_ptr<const Graph>> bodies;
  Builds builds;
  for (const Graph* graph : at.builds) {
    bodies.push_back(composite_body(*graph, graph->node(at.id)));
    builds.push_back(bodies.back().get());
  }
  return at.emit.graph(builds, at.inputs);
}

}  // namespace

std::int64_t Site::integer(const std::string& attribute) const {
  const Extent e = extent(attribute);
  if (!e.is_constant()) refuse(attribute + " depends on the sizes");
  return e.constant();
}

Extent Site::fit(const std::vector<std::int64_t>& values) const {
  return emit.sizes().fit(values).value_or(Extent());
}

Extent Site::extent(const std::string& attribute) const {
  std::vector<std::int64_t> values;
  for (const Graph* graph : builds) values.push_back(graph->node(id).attributes.get<std::int64_t>(attribute));
  return fit(values);
}

std::vector<Extent> Site::extents(const std::string& attribute) const {
  const std::size_t n = node().attributes.get<Ints>(attribute).size();
  std::vector<Extent> list;
  for (std::size_t k = 0; k < n; ++k) {
    std::vector<std::int64_t> values;
    for (const Graph* graph : builds) values.push_back(graph->node(id).attributes.get<Ints>(attribute).at(k));
    list.push_back(fit(values));
  }
  return list;
}

static std::vector<Extent> shape_in_builds(const Site& at, auto&& shape_in) {
  std::vector<Extent> list;
  for (int k = 0; k < shape_in(*at.builds[0]).rank(); ++k) {
    std::vector<std::int64_t> values;
    for (const Graph* graph : at.builds) values.push_back(shape_in(*graph)[k]);
    list.push_back(at.fit(values));
  }
  return list;
}
std::vector<Extent> Site::in_shape(std::size_t input) const {
  return shape_in_builds(*this, [&](const Graph& g) { return g.type(g.node(id).inputs[input]).shape; });
}
std::vector<Extent> Site::out_shape(std::size_t output) const {
  return shape_in_builds(*this, [&](const Graph& g) { return g.node(id).outputs[output].shape; });
}

void Site::refuse(const std::string& why) const {
  std::string where;
  for (std::int32_t k = id; k >= 0 && where.empty(); --k) {
    const Node& before = builds[0]->node(k);
    if (before.op == Op::input) where = ", after '" + before.attributes.get<std::string>("name") + "'";
  }
  throw Error(ErrorKind::unsupported, "export",
              "node " + std::to_string(id) + " (" + std::string(op_info(node().op).name) + where + "): " + why,
              "docs/onnx.md lists what is written");
}

Emit find_emit(Op op) {
  for (const auto rows : {plain_rows(), structured_rows()})
    for (const EmitRow& row : rows)
      if (row.op == op) return row.emit;
  return nullptr;
}

std::vector<Operand> Emitter::graph(const Builds& builds, const std::vector<Operand>& inputs) {
  require_same_structure(builds);
  const Graph& graph = *builds[0];
  std::map<ValueId, Operand> values;
  for (std::size_t k = 0; k < inputs.size(); ++k) values.emplace(graph.inputs()[k].value, inputs[k]);
  const std::vector<bool> needed = needed_nodes(graph);
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (node.op == Op::input || !needed[id]) continue;
    std::vector<Operand> operands;
    for (const ValueId& input : node.inputs) operands.push_back(values.at(input));
    const Site at{*this, builds, id, operands};
    const Site* const outer = std::exchange(site_, &at);
    std::vector<Operand> outputs;
    if (node.op == Op::constant) {
      outputs = constant(at);
    } else if (const Emit emit = find_emit(node.op)) {
      outputs = emit(at);
    } else if (op_info(node.op).tier != OpTier::composite) {
      at.refuse("the op has no ONNX form");
    }
    if (outputs.empty()) outputs = by_body(at);
    site_ = outer;
    for (std::size_t k = 0; k < outputs.size(); ++k)
      values.emplace(ValueId{id, static_cast<std::int32_t>(k)}, outputs[k]);
  }
  std::vector<Operand> results;
  for (const NamedValue& output : graph.outputs()) results.push_back(values.at(output.value));
  return results;
}

}  // namespace unroll::onnx
