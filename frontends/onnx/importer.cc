// SPDX-License-Identifier: Apache-2.0
// Walks the nodes of a model: binds inputs, builds each node by the row of its operator, and inlines functions.
#include "frontends/onnx/importer.h"

#include <array>

namespace unroll::onnx {
namespace {

constexpr std::int64_t k_copied_elements = 1024;  // larger constants become inputs of a scan body

std::string dimension_text(const Dimension& d) {
  if (d.size >= 0) return std::to_string(d.size);
  return d.symbol.empty() ? "?" : d.symbol;
}

std::string inputs_text(const Model& model) {
  std::string text = "The model's inputs: ";
  const std::vector<ValueDef> inputs = required_inputs(model);
  for (std::size_t i = 0; i < inputs.size(); ++i) text += (i == 0 ? "" : ", ") + input_text(inputs[i]);
  return inputs.empty() ? "The model has no inputs" : text;
}

void check_input(const Model& model, const ValueDef& input, const Type& type,
                 std::map<std::string, std::int64_t>& symbols) {
  const auto refuse = [&](ErrorKind kind, const std::string& what) {
    throw Error(kind, model.file, "input '" + input.name + "' is " + type.text() + "; " + what, inputs_text(model));
  };
  if (!input.is_tensor) refuse(ErrorKind::unsupported, "sequences and optional values are not supported");
  if (input.element_type != 0) {
    const ElementType* element = find_element_type(input.element_type);
    if (!element) refuse(ErrorKind::unsupported, "elements of " + element_type_text(input.element_type));
    if (element->dtype != type.dtype)
      refuse(ErrorKind::type, "it must be " + std::string(dtype_name(element->dtype)) + ", for " +
                                  std::string(element->name));
  }
  if (!input.shape) return;
  if (std::ssize(*input.shape) != type.shape.rank())
    refuse(ErrorKind::shape, "it must have rank " + std::to_string(input.shape->size()));
  for (int i = 0; i < type.shape.rank(); ++i) {
    const Dimension& d = (*input.shape)[i];
    if (d.size < 0 && d.symbol.empty()) continue;
    const std::int64_t wanted = d.size >= 0 ? d.size : symbols.emplace(d.symbol, type.shape[i]).first->second;
    if (wanted != type.shape[i]) {
      refuse(ErrorKind::shape, "dimension " + std::to_string(i) + " (" + dimension_text(d) + ") must be " +
                                   std::to_string(wanted));
    }
  }
}

// Returns the names that a graph reads but does not define, including those of its subgraphs.
void free_names(const GraphDef& graph, std::set<std::string>& free) {
  std::set<std::string> defined, read;
  for (const ValueDef& input : graph.inputs) defined.insert(input.name);
  for (const auto& [name, tensor] : graph.initializers) defined.insert(name);
  for (const NodeDef& node : graph.nodes) {
    read.insert(node.inputs.begin(), node.inputs.end());
    for (const AttributeDef& a : node.attributes)
      if (a.g) free_names(*a.g, read);
    defined.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const ValueDef& output : graph.outputs) read.insert(output.name);
  std::set_difference(read.begin(), read.end(), defined.begin(), defined.end(), std::inserter(free, free.end()));
}

const FunctionDef* find_function(const Model& model, const NodeDef& node) {
  for (const FunctionDef& f : model.functions)
    if (f.name == node.op && f.domain == node.domain) return &f;
  return nullptr;
}

}  // namespace

std::vector<ValueDef> required_inputs(const Model& model) {
  std::vector<ValueDef> inputs;
  for (const ValueDef& input : model.graph.inputs)
    if (!model.graph.initializers.contains(input.name)) inputs.push_back(input);
  return inputs;
}

std::string input_text(const ValueDef& input) {
  std::string text = element_type_text(input.element_type) + " " + input.name;
  if (!input.shape) return text;
  text += " [";
  for (std::size_t i = 0; i < input.shape->size(); ++i) text += (i == 0 ? "" : ",") + dimension_text((*input.shape)[i]);
  return text + "]";
}

const OperatorRow* find_operator(std::string_view domain, std::string_view name) {
  for (const auto rows : {elementwise_rows(), math_rows(), movement_rows(), rearrange_rows(), resize_rows(),
                          index_rows(), scatter_rows(), reduction_rows(), convolution_rows(), normalization_rows(),
                          quantized_rows(), einsum_rows(), fourier_rows(), recurrent_rows(), control_rows(),
                          sequence_rows()}) {
    for (const OperatorRow& row : rows)
      if (row.name == name && row.domain == domain) return &row;
  }
  return nullptr;
}

Importer::Importer(const Model& in_model, const TensorMap& known, NodeObserver* observer)
    : model(in_model), known_(known), observer_(observer) {}
Importer::~Importer() = default;

void Importer::count_nodes(std::int64_t n) {
  nodes_ += n;
  if (nodes_ > k_max_nodes) {
    throw Error(ErrorKind::input_file, model.file,
                "needs more than " + std::to_string(k_max_nodes) + " nodes with its subgraphs and functions inlined");
  }
}

std::vector<Value> Importer::call_function(Call& call, const FunctionDef& function) {
  if (call.names.depth >= k_max_depth) call.refuse("functions call each other too deeply");
  std::map<std::string, AttributeDef> attributes;
  for (const AttributeDef& a : function.defaults) attributes.insert_or_assign(a.name, a);
  for (const AttributeDef& a : function.defaults)
    if (const AttributeDef* given = call.attribute(a.name)) attributes.insert_or_assign(a.name, *given);
  for (const std::string& name : function.attributes)
    if (const AttributeDef* given = call.attribute(name)) attributes.insert_or_assign(name, *given);
  Names inner{.frame = call.names.frame, .attributes = &attributes, .depth = call.names.depth + 1};
  if (call.n_inputs() > function.inputs.size()) call.refuse("has more inputs than its function");
  for (std::size_t i = 0; i < call.n_inputs(); ++i)
    if (call.has(i)) inner.values.insert_or_assign(function.inputs[i], call.in(i));
  for (const NodeDef& node : function.nodes) build_node(inner, node);
  require_whole_sequences(inner);
  std::vector<Value> outputs;
  for (const std::string& name : function.outputs) outputs.push_back(inner.find(name));
  return outputs;
}

void Importer::build_node(Names& names, const NodeDef& node) {
  count_nodes(1);
  Call call(*this, names, node);
  const FunctionDef* function = find_function(model, node);
  const OperatorRow* row = function ? nullptr : find_operator(node.domain, node.op);
  if (!function && !row) {
    call.unsupported("the operator " + (node.domain.empty() ? "" : node.domain + ".") + node.op + " is not supported",
                     "docs/onnx.md lists the supported operators");
  }
  if (row && row->domain.empty() && model.opset < row->since)
    call.refuse("the operator exists since opset " + std::to_string(row->since));
  const auto first = static_cast<std::int32_t>(names.frame.graph.nodes().size());
  std::vector<Value> outputs;
  try {
    outputs = function ? call_function(call, *function) : row->build(call);
  } catch (const Error& e) {
    const std::string_view text = e.what();
    if (text.find("node '") != std::string_view::npos || text.find(model.file) != std::string_view::npos) throw;
    if (e.kind() == ErrorKind::unsupported) call.unsupported(std::string(text));
    call.refuse(std::string(text));  // shapes or dtypes that do not match
  }
  call.require_all_read();
  if (observer_ && row && !names.frame.outer) observer_->built(call, *row, first, outputs);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const bool is_sequence = names.sequences.contains(node.outputs[i]);
    if (is_sequence && i >= outputs.size()) continue;
    if (i >= outputs.size() || !outputs[i]) call.unsupported("output " + std::to_string(i) + " is not supported");
    if (is_sequence || !names.values.emplace(node.outputs[i], outputs[i]).second)
      call.refuse("the name '" + node.outputs[i] + "' is defined twice");
  }
}

std::vector<Value> Importer::build_graph(Names& names, const GraphDef& graph) {
  for (const auto& [name, tensor] : graph.initializers) {
    if (names.values.contains(name)) continue;  // an input replaces it
    names.values.emplace(name, names.frame.graph.append_one(Op::constant, {}, {{"value", tensor}}));
  }
  for (const NodeDef& node : graph.nodes) build_node(names, node);
  require_whole_sequences(names);
  std::vector<Value> outputs;
  for (const ValueDef& output : graph.outputs) {
    outputs.push_back(names.find(output.name));
    if (!outputs.back()) throw Error(ErrorKind::input_file, model.file, "output '" + output.name + "' is not computed");
  }
  return outputs;
}

std::map<std::string, Value> Importer::captures(const Names& names, const GraphDef& graph) const {
  std::set<std::string> free;
  free_names(graph, free);
  std::map<std::string, Value> outer;
  for (const std::string& name : free)
    if (const Value value = names.find(name)) outer.emplace(name, value);
  return outer;
}

void Importer::bind_captures(Names& inner, const std::map<std::string, Value>& outer, std::span<const Value> inputs) {
  std::size_t i = 0;
  for (const auto& [name, value] : outer) {
    const Value input = inputs[i++];
    const Node& node = value.node();
    const bool is_small = node.op == Op::constant && value.shape().elements() <= k_copied_elements;
    inner.values.emplace(name, is_small ? inner.frame.graph.append_one(Op::constant, {}, node.attributes) : input);
    inner.frame.captured.emplace(input.id(), value);
  }
}

ImportedGraph Importer::run(const std::map<std::string, Type>& types) {
  ImportedGraph result{.graph = std::make_shared<Graph>(), .symbols = {}, .specialized = {}};
  Frame frame{*result.graph};
  Names names{.frame = frame};
  std::set<std::string> expected;
  for (const ValueDef& input : model.graph.inputs) {
    expected.insert(input.name);
    const auto given = types.find(input.name);
    if (given == types.end()) {
      if (model.graph.initializers.contains(input.name)) continue;
      throw Error(ErrorKind::usage, model.file, "input '" + input.name + "' is missing", inputs_text(model));
    }
    check_input(model, input, given->second, result.symbols);
    const Value value = result.graph->input(input.name, given->second);
    if (is_narrow_type(input.element_type)) frame.narrow_types.emplace(value.id(), input.element_type);
    if (!names.values.emplace(input.name, value).second)
      throw Error(ErrorKind::input_file, model.file, "two inputs have the name '" + input.name + "'");
  }
  for (const auto& [name, type] : types)
    if (!expected.contains(name))
      throw Error(ErrorKind::usage, model.file, "has no input '" + name + "'", inputs_text(model));
  const std::vector<Value> outputs = build_graph(names, model.graph);
  if (outputs.empty()) throw Error(ErrorKind::input_file, model.file, "has no outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) result.graph->output(model.graph.outputs[i].name, outputs[i]);
  result.specialized.assign(specialized_.begin(), specialized_.end());
  return result;
}

ImportedGraph import_graph(const Model& model, const std::map<std::string, Type>& inputs, const TensorMap& known) {
  return Importer(model, known).run(inputs);
}

ImportedGraph import_graph(const Model& model, const TensorMap& inputs) {
  std::map<std::string, Type> types;
  for (const auto& [name, tensor] : inputs) types.emplace(name, tensor.type());
  return import_graph(model, types, inputs);
}

}  // namespace unroll::onnx
