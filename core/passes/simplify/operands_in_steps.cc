// SPDX-License-Identifier: Apache-2.0
// Elementwise values that only a loop reads, slice by slice, are computed in its steps: the gradient of a loss with
// respect to y, which the backward loop reads. They then take no memory, and a step has no further call where it
// computes elementwise anyway. For backends whose loops are kernels or recorded steps (Tuning::operands_in_steps).
#include <algorithm>
#include <map>
#include <optional>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

class StepOperands {
 public:
  explicit StepOperands(const RewriteNode& at, const std::vector<std::vector<int>>& uses)
      : at_(at), uses_(uses), layout_(scan_layout(at.node)) {}

  // The loop that computes what enters it; empty when nothing does.
  std::vector<Value> run(PassLog* log) {
    if (layout_.has_lengths || layout_.has_reset || layout_.packed || layout_.steps == 0) return {};
    if (at_.node.attributes.get_or<bool>("segments", false)) return {};
    bool any = false;
    const InLoop in_loop(log, at_.source, at_.node);
    for (std::size_t i = first(); i < last(); ++i) {
      entering_.push_back(enters(i));
      if (!entering_.back()) continue;
      any = true;
      if (log) log->add("computed " + node_text(at_.operands[i].node()) + " in every step", "only this loop reads it");
    }
    return any ? rebuild() : std::vector<Value>{};
  }

 private:
  std::size_t first() const { return static_cast<std::size_t>(layout_.n_states); }
  std::size_t last() const { return first() + static_cast<std::size_t>(layout_.n_sequences); }

  // An elementwise node of one value [T, ...] and of numbers, which reads no more than the loop would.
  bool enters(std::size_t i) const {
    const ValueId id = at_.node.inputs[i];
    const Value value = at_.operands[i];
    const Node& node = value.node();
    if (!is_elementwise(node.op) || uses_[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)] != 1)
      return false;
    int varying = 0;
    for (const ValueId& in : node.inputs) {
      const Value operand = at_.target.value(in);
      double element = 0;
      if (is_splat(operand, element) || operand.rank() == 0) continue;
      if (operand.shape() != value.shape() || dtype_bytes(operand.dtype()) > dtype_bytes(value.dtype())) return false;
      ++varying;
    }
    return varying == 1;
  }

  std::vector<Value> rebuild();
  Value input(const Value& outside, std::vector<Value>& list) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const Value& v) { return v.id() == outside.id(); });
    if (found == list.end()) list.push_back(outside);
    return outside;
  }

  const RewriteNode& at_;
  const std::vector<std::vector<int>>& uses_;
  const ScanLayout layout_;
  std::vector<bool> entering_;  // [sequence]
};

std::vector<Value> StepOperands::rebuild() {
  const Graph& body = *at_.node.body;
  const auto part = [&](std::size_t from, std::size_t to) {
    return std::vector<Value>(at_.operands.begin() + static_cast<std::ptrdiff_t>(from),
                              at_.operands.begin() + static_cast<std::ptrdiff_t>(to));
  };
  const std::vector<Value> states = part(0, first()), constants_before = part(last(), at_.operands.size());
  std::vector<Value> sequences, constants = constants_before;
  for (std::size_t i = first(); i < last(); ++i)
    if (!entering_[i - first()]) input(at_.operands[i], sequences);
  for (std::size_t i = first(); i < last(); ++i) {
    if (!entering_[i - first()]) continue;
    for (const ValueId& in : at_.operands[i].node().inputs) {
      const Value operand = at_.target.value(in);
      double element = 0;
      if (!is_splat(operand, element)) input(operand, operand.rank() == 0 ? constants : sequences);
    }
  }
  Graph inner;
  std::map<ValueId, Value> outside;  // values around the loop, as the step sees them
  std::vector<Value> step_states;
  const auto add = [&](Type type) { return inner.input("in" + std::to_string(inner.inputs().size()), type); };
  for (std::size_t i = 0; i < first(); ++i) step_states.push_back(add(body.type(body.inputs()[i].value)));
  for (const Value& value : sequences) outside[value.id()] = add({value.dtype(), value.shape().removed(0)});
  for (const Value& value : constants) outside[value.id()] = add(value.type());
  const auto computed = [&](const Value& value) {
    const Node& node = value.node();
    const OriginScope of_node(inner, node.origin);
    std::vector<Value> operands;
    for (const ValueId& in : node.inputs) {
      const Value operand = at_.target.value(in);
      double element = 0;
      operands.push_back(is_splat(operand, element) ? scalar(inner, operand.dtype(), element)
                                                    : outside.at(operand.id()));
    }
    return inner.append_copy(at_.target, node, operands)[static_cast<std::size_t>(value.id().output)];
  };
  std::map<ValueId, Value> map;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const bool is_sequence = i >= first() && i < last();
    map[body.inputs()[i].value] = i < first()                               ? step_states[i]
                                  : is_sequence && entering_[i - first()] ? computed(at_.operands[i])
                                                                            : outside.at(at_.operands[i].id());
  }
  for (std::size_t n = 0; n < body.nodes().size(); ++n) {
    const Node& node = body.nodes()[n];
    if (node.op == Op::input) continue;
    std::vector<Value> in;
    for (const ValueId& id : node.inputs) in.push_back(map.at(id));
    const auto values = inner.append_copy(body, node, in);
    for (std::size_t k = 0; k < values.size(); ++k)
      map[{static_cast<std::int32_t>(n), static_cast<std::int32_t>(k)}] = values[k];
  }
  for (const NamedValue& output : body.outputs()) inner.output(output.name, map.at(output.value));
  std::vector<Value> operands = states;
  operands.insert(operands.end(), sequences.begin(), sequences.end());
  operands.insert(operands.end(), constants.begin(), constants.end());
  Attributes attributes = at_.node.attributes;
  attributes.set("sequences", static_cast<std::int64_t>(sequences.size()));
  return scan_body(operands, std::move(attributes), drop_dead(inner));
}

}  // namespace

std::shared_ptr<const Graph> operands_in_steps(const Graph& graph, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) {
    std::shared_ptr<const Graph> result = copy_graph(g);
    for (bool changes = true; changes;) {  // one op of a chain after the other
      changes = false;
      const auto uses = count_uses(*result);
      const auto next = rewrite(*result, [&](const RewriteNode& at) -> std::vector<Value> {
        if (at.node.op != Op::scan) return {};
        auto values = StepOperands(at, uses).run(log);
        changes = changes || !values.empty();
        return values;
      });
      result = drop_dead(*next);
    }
    return result;
  }, log);
}

}  // namespace unroll
