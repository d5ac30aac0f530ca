// SPDX-License-Identifier: Apache-2.0
#include "unroll/ir/graph.h"

#include <algorithm>
#include <cstring>

#include "core/ir/input_range.h"
#include "core/ir/shapes/shape_rules.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  const auto* tensor = std::get_if<std::shared_ptr<const Tensor>>(&a);
  if (!tensor) return a == b;
  const Tensor &x = **tensor, &y = *std::get<std::shared_ptr<const Tensor>>(b);
  if (&x == &y) return true;
  return x.type() == y.type() &&
         (x.bytes().empty() || std::memcmp(x.bytes().data(), y.bytes().data(), x.bytes().size()) == 0);
}

const NamedValue* find_named(std::span<const NamedValue> list, std::string_view name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const NamedValue& n) { return n.name == name; });
  return at == list.end() ? nullptr : &*at;
}

// `inner` where `outer` is around it.
Origin nested(const Origin& outer, const Origin& inner) {
  Origin origin{inner.layer, std::max(outer.phase, inner.phase)};
  if (inner.layer.empty()) origin.layer = outer.layer;
  else if (inner.layer.front() == '.')
    origin.layer = outer.layer.empty() ? inner.layer.substr(1) : outer.layer + inner.layer;
  return origin;
}

// The origin of a node that was appended outside of all scopes: that of its operands in the latest phase. Inputs of the
// graph come first, because they are parameters.
Origin origin_of_operands(const Graph& graph, const std::vector<ValueId>& inputs) {
  Origin origin;
  bool of_input = false;
  for (const ValueId& id : inputs) {
    const Node& from = graph.node(id.node);
    if (from.op == Op::constant || from.origin.phase < origin.phase) continue;
    const bool is_later = from.origin.phase > origin.phase, is_input = from.op == Op::input;
    origin.phase = from.origin.phase;
    if (from.origin.layer.empty() || !(is_later || origin.layer.empty() || (is_input && !of_input))) continue;
    origin.layer = from.origin.layer;
    of_input = is_input;
  }
  return origin;
}

}  // namespace

template <class T>
const T& Attributes::get(std::string_view name) const {
  const auto at = map_.find(name);
  if (at == map_.end()) throw Error(ErrorKind::graph, "attribute", "'" + std::string(name) + "' is missing");
  const T* value = std::get_if<T>(&at->second);
  if (!value) throw Error(ErrorKind::graph, "attribute", "'" + std::string(name) + "' has the wrong type");
  return *value;
}
template <class T>
T Attributes::get_or(std::string_view name, T fallback) const {
  return has(name) ? get<T>(name) : fallback;
}
#define UNROLL_ATTRIBUTE(...)                                                       \
  template UNROLL_API const __VA_ARGS__& Attributes::get(std::string_view) const;   \
  template UNROLL_API __VA_ARGS__ Attributes::get_or(std::string_view, __VA_ARGS__) const;
UNROLL_ATTRIBUTE(std::int64_t)
UNROLL_ATTRIBUTE(double)
UNROLL_ATTRIBUTE(bool)
UNROLL_ATTRIBUTE(std::string)
UNROLL_ATTRIBUTE(Ints)
UNROLL_ATTRIBUTE(DType)
UNROLL_ATTRIBUTE(std::shared_ptr<const Tensor>)
#undef UNROLL_ATTRIBUTE

void Attributes::erase(std::string_view name) {
  const auto at = map_.find(name);
  if (at != map_.end()) map_.erase(at);
}

bool operator==(const Attributes& a, const Attributes& b) {
  return std::equal(a.map_.begin(), a.map_.end(), b.map_.begin(), b.map_.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_attribute(x.second, y.second);
  });
}

const Type& Value::type() const {
  if (!graph_) throw Error(ErrorKind::usage, "Value", "an empty value has no type");
  return graph_->type(id_);
}
const Node& Value::node() const {
  if (!graph_) throw Error(ErrorKind::usage, "Value", "an empty value has no node");
  return graph_->node(id_.node);
}

Value Graph::input(std::string name, Type type) {
  if (name.empty()) throw Error(ErrorKind::usage, "Graph::input", "an input needs a name");
  if (find_named(inputs_, name)) throw Error(ErrorKind::usage, "Graph::input", "the name '" + name + "' is taken");
  const Value value = append_one(
      Op::input, {}, {{"name", name}, {"dtype", type.dtype}, {"shape", Ints(type.shape.begin(), type.shape.end())}});
  inputs_.push_back({std::move(name), value.id()});
  return value;
}

void Graph::output(std::string name, Value value) {
  if (name.empty()) throw Error(ErrorKind::usage, "Graph::output", "an output needs a name");
  if (!value || &value.graph() != this)
    throw Error(ErrorKind::usage, "Graph::output", "'" + name + "' is a value of another graph");
  if (find_named(outputs_, name)) throw Error(ErrorKind::usage, "Graph::output", "the name '" + name + "' is taken");
  outputs_.push_back({std::move(name), value.id()});
}

std::vector<ValueId> Graph::ids_of(Op op, ValueList inputs) const {
  std::vector<ValueId> ids;
  for (const Value& value : inputs) {
    if (!value || &value.graph() != this)
      throw Error(ErrorKind::usage, op_info(op).name,
                  "operand " + std::to_string(ids.size()) + " is empty or a value of another graph");
    ids.push_back(value.id());
  }
  return ids;
}

std::vector<Value> Graph::append_node(Node node) {
  const auto id = static_cast<std::int32_t>(nodes_.size());
  node.origin = origin_ ? *origin_ : origin_of_operands(*this, node.inputs);
  nodes_.push_back(std::move(node));
  std::vector<Value> values;
  for (std::size_t i = 0; i < nodes_.back().outputs.size(); ++i)
    values.push_back({this, {id, static_cast<std::int32_t>(i)}});
  return values;
}

std::vector<Value> Graph::append(Op op, ValueList inputs, Attributes attributes,
                                 std::shared_ptr<const Graph> body) {
  std::vector<ValueId> ids = ids_of(op, inputs);
  std::vector<Type> types;
  for (const Value& value : inputs) types.push_back(value.type());
  std::vector<Type> outputs = infer_types({op, types, attributes, body.get()});
  return append_node({op, std::move(ids), std::move(attributes), std::move(body), std::move(outputs), {}});
}

Value Graph::append_one(Op op, ValueList inputs, Attributes attributes,
                        std::shared_ptr<const Graph> body) {
  return append(op, inputs, std::move(attributes), std::move(body)).at(0);
}

std::vector<Value> Graph::append_copy(const Graph& source, const Node& node, ValueList inputs) {
  const OriginScope of_node(*this, node.origin);
  std::vector<ValueId> ids = ids_of(node.op, inputs);
  const bool same_types = std::ranges::equal(
      ids, node.inputs, [&](const ValueId& mine, const ValueId& its) { return type(mine) == source.type(its); });
  if (!same_types) return append(node.op, inputs, node.attributes, node.body);
  return append_node({node.op, std::move(ids), node.attributes, node.body, node.outputs, {}});
}

OriginScope::OriginScope(Graph& graph, const Origin& origin) : graph_(graph), outer_(graph.origin_) {
  graph.origin_ = outer_ ? nested(*outer_, origin) : origin;
}

Value Graph::find_input(std::string_view name) {
  const NamedValue* found = find_named(inputs_, name);
  return found ? value(found->value) : Value();
}
Value Graph::find_output(std::string_view name) {
  const NamedValue* found = find_named(outputs_, name);
  return found ? value(found->value) : Value();
}

std::vector<Value> inline_graph(Graph& target, const Graph& source, ValueList inputs) {
  const std::size_t n = source.nodes().size();
  if (inputs.size() != source.inputs().size())
    throw Error(ErrorKind::usage, "inline_graph",
                "takes " + std::to_string(source.inputs().size()) + " inputs; got " + std::to_string(inputs.size()));
  std::vector<bool> needed(n, false);
  for (const NamedValue& output : source.outputs()) needed[output.value.node] = true;
  for (std::size_t i = n; i-- > 0;)
    if (needed[i])
      for (const ValueId& input : source.nodes()[i].inputs) needed[input.node] = true;

  std::vector<std::vector<Value>> map(n);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueId id = source.inputs()[i].value;
    if (inputs[i].type() != source.type(id))
      throw Error(
          ErrorKind::shape, "inline_graph",
          "input '" + source.inputs()[i].name + "' is " + source.type(id).text() + "; got " + inputs[i].type().text());
    map[id.node] = {inputs[i]};
  }
  copy_ranges(source, inputs);
  const auto at = [&](const ValueId& id) {
    return map[id.node][id.output];
  };
  for (std::size_t i = 0; i < n; ++i) {
    if (!needed[i] || !map[i].empty()) continue;
    const Node& node = source.nodes()[i];
    std::vector<Value> operands;
    for (const ValueId& id : node.inputs) operands.push_back(at(id));
    map[i] = target.append_copy(source, node, operands);
  }
  std::vector<Value> outputs;
  for (const NamedValue& output : source.outputs()) outputs.push_back(at(output.value));
  return outputs;
}

std::shared_ptr<Graph> copy_graph(const Graph& source) {
  auto target = std::make_shared<Graph>();
  std::vector<Value> inputs;
  for (const NamedValue& input : source.inputs()) inputs.push_back(target->input(input.name, source.type(input.value)));
  const std::vector<Value> outputs = inline_graph(*target, source, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) target->output(source.outputs()[i].name, outputs[i]);
  return target;
}

}  // namespace unroll
