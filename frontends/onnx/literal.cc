// SPDX-License-Identifier: Apache-2.0
// Evaluates values at build time. Exporters compute target shapes, axes and trip counts with dozens of nodes. Since
// shapes are static here, these values are constants, and the reference backend computes them.
#include "frontends/onnx/importer.h"
#include "unroll/passes/run.h"

namespace unroll::onnx {

// True if `id` depends only on constants and known inputs; adds the values for its computation to `needed`.
bool Importer::collect(Frame& frame, ValueId id, std::set<ValueId>& needed) {
  std::vector<ValueId> open{id};
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (!needed.insert(at).second || frame.evaluated.contains(at)) continue;
    const Node& node = frame.graph.node(at.node);
    if (node.op != Op::input) {
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
      continue;
    }
    const auto captured = frame.captured.find(at);
    if (captured != frame.captured.end()) {
      std::optional<Tensor> tensor = literal(*frame.outer, captured->second);
      if (!tensor) return false;
      frame.evaluated.emplace(at, std::move(*tensor));
      continue;
    }
    const std::string& name = node.attributes.get<std::string>("name");
    const auto known = known_.find(name);
    if (frame.outer || known == known_.end()) return false;
    specialized_.insert(name);
    frame.evaluated.emplace(at, known->second);
  }
  return true;
}

Value Importer::copy(Frame& frame, Graph& to, ValueId id, std::map<ValueId, Value>& done) {
  if (const auto found = done.find(id); found != done.end()) return found->second;
  const Node& node = frame.graph.node(id.node);
  std::vector<Value> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(done.at(input));
  const std::vector<Value> outputs = to.append_copy(frame.graph, node, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) done.insert({{id.node, static_cast<std::int32_t>(i)}, outputs[i]});
  return done.at(id);
}

void Importer::count_elements(std::int64_t n) {
  evaluated_elements_ += std::min(n, k_max_evaluated_elements + 1);  // cannot overflow
  if (evaluated_elements_ > k_max_evaluated_elements)
    throw Error(ErrorKind::input_file, model.file, "computes shapes or tables from too many values");
}

std::optional<Tensor> Importer::literal(Frame& frame, Value value) {
  const ValueId id = value.id();
  const Node& node = frame.graph.node(id.node);
  if (node.op == Op::constant) return *node.attributes.get<std::shared_ptr<const Tensor>>("value");
  if (const auto found = frame.evaluated.find(id); found != frame.evaluated.end()) return found->second;
  std::set<ValueId> needed;
  if (!collect(frame, id, needed)) return std::nullopt;
  for (const ValueId each : needed) count_elements(frame.graph.type(each).shape.elements());
  Graph part;
  std::map<ValueId, Value> done;
  for (const ValueId each : needed) {  // in the order of nodes
    const auto found = frame.evaluated.find(each);
    if (found != frame.evaluated.end()) done.insert({each, constant(part, found->second)});
  }
  for (const ValueId each : needed) copy(frame, part, each, done);
  part.output("value", done.at(id));
  if (!reference_) reference_ = make_backend("reference");
  Tensor result = std::move(evaluate(part, *reference_, {}).at("value"));
  frame.evaluated.insert_or_assign(id, result);
  return result;
}

}  // namespace unroll::onnx
