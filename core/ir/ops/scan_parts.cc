// SPDX-License-Identifier: Apache-2.0
#include "core/ir/ops/scan_parts.h"

#include <string>

namespace unroll {

ScanRole scan_role(const ScanLayout& l, std::size_t operand) {
  const std::pair<ScanRole, int> counts[] = {{ScanRole::state, l.n_states},       {ScanRole::sequence, l.n_sequences},
                                             {ScanRole::constant, l.n_constants}, {ScanRole::lengths, l.has_lengths},
                                             {ScanRole::reset, l.has_reset}};
  int end = 0;
  for (const auto& [role, count] : counts)
    if (std::cmp_less(operand, end += count)) return role;
  return ScanRole::batch_sizes;
}

ScanParts::ScanParts(const Node& scan, std::span<const Value> operands) : attributes(scan.attributes) {
  const ScanLayout layout = scan_layout(scan);
  for (std::size_t i = 0; i < operands.size(); ++i) switch (scan_role(layout, i)) {
      case ScanRole::state: states.push_back(operands[i]); break;
      case ScanRole::sequence: sequences.push_back(operands[i]); break;
      case ScanRole::constant: constants.push_back(operands[i]); break;
      case ScanRole::lengths: lengths = operands[i]; break;
      case ScanRole::reset: reset = operands[i]; break;
      case ScanRole::batch_sizes: batch_sizes = operands[i]; break;
    }
}

std::vector<Value> ScanParts::operands() const {
  std::vector<Value> all;
  for (const auto* list : {&states, &sequences, &constants}) all.insert(all.end(), list->begin(), list->end());
  for (const Value& value : {lengths, reset, batch_sizes})
    if (value) all.push_back(value);
  return all;
}

std::vector<Value> ScanParts::emit(std::shared_ptr<const Graph> body) const {
  Attributes all = attributes;
  all.set("states", std::ssize(states));
  all.set("sequences", std::ssize(sequences));
  all.set("lengths", static_cast<bool>(lengths));
  all.set("reset", static_cast<bool>(reset));
  if (batch_sizes) all.set("packed", true);
  return scan_body(operands(), std::move(all), std::move(body));
}

ScanBuilder::ScanBuilder(const ScanParts& like) : parts_(like) {
  for (auto* list : {&parts_.states, &parts_.sequences, &parts_.constants}) list->clear();
}

Value ScanBuilder::add(ScanRole role, Value operand, Type type) {
  operands_.push_back({role, operand, step_->input("in" + std::to_string(operands_.size()), type)});
  return operands_.back().inner;
}

Value ScanBuilder::known(ScanRole role, Value outer) const {
  for (const Operand& operand : operands_)
    if (operand.role == role && operand.outer == outer) return operand.inner;
  return {};
}
Value ScanBuilder::shared_sequence(Value x) {
  const Value inner = known(ScanRole::sequence, x);
  return inner ? inner : sequence(x);
}
Value ScanBuilder::shared_constant(Value x) {
  const Value inner = known(ScanRole::constant, x);
  return inner ? inner : constant(x);
}

std::vector<Value> ScanBuilder::add_all(const ScanParts& parts, const Graph& body) {
  const std::pair<ScanRole, const std::vector<Value>&> lists[] = {
      {ScanRole::state, parts.states}, {ScanRole::sequence, parts.sequences}, {ScanRole::constant, parts.constants}};
  std::vector<Value> inputs;
  for (const auto& [role, list] : lists)
    for (const Value& operand : list)
      inputs.push_back(add(role, operand, body.type(body.inputs()[inputs.size()].value)));
  return inputs;
}

std::vector<Value> ScanBuilder::emit(std::span<const Value> results) {
  ScanParts parts = parts_;
  auto body = std::make_shared<Graph>();
  std::vector<Value> inputs(operands_.size());
  const std::pair<ScanRole, std::vector<Value>&> lists[] = {
      {ScanRole::state, parts.states}, {ScanRole::sequence, parts.sequences}, {ScanRole::constant, parts.constants}};
  for (const auto& [role, list] : lists)
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].role != role) continue;
      list.push_back(operands_[i].outer);
      inputs[i] = body->input("in" + std::to_string(body->inputs().size()), operands_[i].inner.type());
    }
  const auto name_outputs = [n = parts.states.size()](Graph& graph, std::span<const Value> outputs) {
    for (std::size_t k = 0; k < outputs.size(); ++k)
      graph.output(k < n ? "next" + std::to_string(k) : "y" + std::to_string(k - n), outputs[k]);
  };
  name_outputs(*step_, results);
  name_outputs(*body, inline_graph(*body, *step_, inputs));
  return parts.emit(std::move(body));
}

}  // namespace unroll
