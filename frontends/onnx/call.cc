// SPDX-License-Identifier: Apache-2.0
// Access of an operator's builder to its node.
#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

std::string where(const NodeDef& node) {
  std::string text = "node '" + node.name + "' (" + (node.domain.empty() ? "" : node.domain + ".") + node.op;
  if (node.name.empty() && !node.outputs.empty()) text += " -> " + node.outputs[0];
  return text + ")";
}

}  // namespace

Value Names::find(const std::string& name) const {
  for (const Names* at = this; at; at = at->outer) {
    const auto found = at->values.find(name);
    if (found != at->values.end()) return found->second;
  }
  return {};
}

// In a function, an attribute may take its value from the call.
Call::Call(Importer& in_importer, Names& in_names, const NodeDef& in_node)
    : importer(in_importer), names(in_names), node(in_node) {
  for (const AttributeDef& a : node.attributes) {
    if (a.ref.empty()) {
      attributes_.insert_or_assign(a.name, a);
      continue;
    }
    if (!names.attributes) refuse("attribute '" + a.name + "' refers to '" + a.ref + "' outside of a function");
    const auto given = names.attributes->find(a.ref);
    if (given != names.attributes->end()) attributes_.insert_or_assign(a.name, given->second);
  }
}

std::int64_t Call::opset() const { return importer.model.opset; }

void Call::refuse(const std::string& what, const std::string& next) const {
  throw Error(ErrorKind::input_file, importer.model.file, where(node) + ": " + what, next);
}
void Call::unsupported(const std::string& what, const std::string& next) const {
  throw Error(ErrorKind::unsupported, importer.model.file, where(node) + ": " + what, next);
}

Value Call::in(std::size_t input) {
  if (!has(input)) refuse("input " + std::to_string(input) + " is missing");
  read_inputs_.insert(input);
  const Value value = names.find(node.inputs[input]);
  if (!value && names.sequences.contains(node.inputs[input]))
    unsupported("input '" + node.inputs[input] + "' is a sequence of tensors", "SequenceAt alone reads sequences");
  if (!value) {
    refuse("input '" + node.inputs[input] + "' is not computed by an earlier node",
           "Nodes must be in topological order");
  }
  return value;
}

Sequence& Call::sequence(std::size_t input) {
  read_inputs_.insert(input);
  const auto found = has(input) ? names.sequences.find(node.inputs[input]) : names.sequences.end();
  if (found == names.sequences.end())
    unsupported("input " + std::to_string(input) + " must be the output of a SplitToSequence in the same graph");
  return found->second;
}

void Call::define_sequence(std::size_t output, Sequence sequence) {
  if (!wants(output)) return;
  const std::string& name = node.outputs[output];
  if (names.values.contains(name) || !names.sequences.emplace(name, std::move(sequence)).second)
    refuse("the name '" + name + "' is defined twice");
}

std::vector<Value> Call::all_inputs() {
  std::vector<Value> values;
  for (std::size_t i = 0; i < n_inputs(); ++i) values.push_back(in(i));
  return values;
}

Tensor Call::literal(std::size_t input) {
  std::optional<Tensor> tensor = importer.literal(names.frame, in(input));
  if (!tensor) {
    unsupported("input '" + node.inputs[input] + "' must be known before the graph runs",
                "Shapes, axes and trip counts may not depend on computed values");
  }
  return std::move(*tensor);
}

Ints Call::ints(std::size_t input) {
  const Tensor tensor = literal(input);
  if (tensor.shape().rank() > 1 || tensor.dtype() != DType::i32)
    refuse("input '" + node.inputs[input] + "' is " + tensor.type().text() + ", not a list of integers");
  const auto values = tensor.values<std::int32_t>();
  return {values.begin(), values.end()};
}

std::int64_t Call::integer(std::size_t input) {
  const Ints values = ints(input);
  if (values.size() != 1) refuse("input '" + node.inputs[input] + "' is not a single integer");
  return values[0];
}

const AttributeDef* Call::attribute(const std::string& name) {
  read_.insert(name);
  const auto found = attributes_.find(name);
  return found == attributes_.end() ? nullptr : &found->second;
}

const AttributeDef* Call::attribute(const std::string& name, AttributeType type) {
  const AttributeDef* a = attribute(name);
  if (a && a->type != AttributeType::none && a->type != type)
    refuse("attribute '" + name + "' has another type than the operator defines");
  return a;
}

std::int64_t Call::integer(const std::string& name, std::int64_t fallback) {
  const AttributeDef* a = attribute(name, AttributeType::integer);
  if (!a) return fallback;
  return a->i.value_or(0);  // files may omit a zero
}
double Call::number(const std::string& name, double fallback) {
  const AttributeDef* a = attribute(name, AttributeType::number);
  if (!a) return fallback;
  return static_cast<double>(a->f.value_or(0));
}
std::string Call::text(const std::string& name, const std::string& fallback) {
  const AttributeDef* a = attribute(name, AttributeType::text);
  return a ? a->s.value_or("") : fallback;
}
std::optional<Ints> Call::list(const std::string& name) {
  const AttributeDef* a = attribute(name, AttributeType::integers);
  if (!a) return std::nullopt;
  return Ints(a->ints.begin(), a->ints.end());
}
const GraphDef& Call::subgraph(const std::string& name) {
  const AttributeDef* a = attribute(name, AttributeType::graph);
  if (!a || !a->g) refuse("the graph '" + name + "' is missing");
  return *a->g;
}

std::int32_t Call::narrow(std::int64_t value) const {
  const std::optional<std::int32_t> narrow = narrowed(value);
  if (!narrow) refuse(std::to_string(value) + " does not fit 32 bits", "Integers are computed in 32 bits");
  return *narrow;
}

int Call::axis(std::int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    refuse("axis " + std::to_string(axis) + " is outside of rank " + std::to_string(rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int Call::narrow_type(Value value) const {
  const Frame* frame = &names.frame;
  for (int walked = 0; walked < k_max_depth; ++walked) {
    const auto captured = frame->captured.find(value.id());
    if (captured != frame->captured.end()) {
      value = captured->second;
      frame = frame->outer;
      continue;
    }
    if (const auto noted = frame->narrow_types.find(value.id()); noted != frame->narrow_types.end())
      return noted->second;
    const Node& at = value.node();
    if (at.op == Op::constant) {
      const auto& known = importer.model.narrow_types;
      const auto found = known.find(at.attributes.get<std::shared_ptr<const Tensor>>("value").get());
      return found == known.end() ? 0 : found->second;
    }
    if (at.op != Op::reshape && at.op != Op::transpose && at.op != Op::slice && at.op != Op::broadcast) return 0;
    value = frame->graph.value(at.inputs[0]);
  }
  return 0;
}

std::optional<Ints> Call::axes(std::size_t input) {
  std::optional<Ints> from_attribute = list("axes");
  if (!has(input)) return from_attribute;
  if (from_attribute) refuse("axes are given as an attribute and as an input");
  return ints(input);
}

void Call::require_all_read() const {
  for (const auto& [name, a] : attributes_)
    if (!read_.contains(name)) unsupported("attribute '" + name + "' is not supported");
  for (std::size_t i = 0; i < n_inputs(); ++i)
    if (has(i) && !read_inputs_.contains(i)) unsupported("input " + std::to_string(i) + " is not supported");
}

}  // namespace unroll::onnx
