// SPDX-License-Identifier: Apache-2.0
// Nodes of a step that store a value in a second place: where the loop stacks it, or for the next step.
#include "backends/device/lowering.h"
#include "unroll/ir/ops.h"

namespace unroll::device {

using common::Expression;

std::size_t append_input(Expression& e, const Expression::Input& input) {
  const std::size_t at = e.inputs.size();
  const auto rename = [&](std::uint16_t& r) { r = static_cast<std::uint16_t>(r + (r >= at)); };
  for (common::Instruction& i : e.instructions)
    for (std::uint16_t* r : {&i.a, &i.b, &i.c}) rename(*r);
  for (auto& result : e.results) rename(result.from);
  e.inputs.push_back(input);
  return at;
}

std::vector<int> Lowering::stored_ahead(std::int32_t node) const {
  std::vector<int> outputs;
  for (const auto& [value, output] : ahead_)
    if (value.node == node) outputs.push_back(output);
  for (const Through& each : through_)
    if (each.node == node) outputs.push_back(each.output);
  return outputs;
}

void Lowering::add_ahead(std::int32_t node, Expression& e, Operands& operands) {
  for (const auto& [value, output] : ahead_) {
    if (value.node != node) continue;
    std::size_t k = 0;  // among the results that are kept
    for (std::int32_t before = 0; before < value.output; ++before) k += is_stored({node, before});
    common::Strides at{};  // dense, over the shape of the expression
    const Shape& own = type(value).shape;
    const common::Strides dense = common::dense_strides(own);
    for (int axis = 0, shift = e.shape.rank() - own.rank(); axis < own.rank(); ++axis)
      if (own[axis] != 1) at[axis + shift] = dense[axis];
    e.results.push_back({e.results[k].from, at});
    operands.push_back(output_operand(output));
  }
}

Operand Lowering::output_operand(int output) const {
  const Type& type = this->type(graph().outputs()[output].value);
  Operand to{{Storage::Place::output, output, 0, {}}, type.bytes()};
  to.element = dtype_bytes(type.dtype);
  return to;
}

std::vector<Lowering::Passed> Lowering::pass_through(std::int32_t id, Expression& e, Operands& operands,
                                                     std::vector<int>& gates) {
  std::vector<Passed> passed;
  const Node& node = graph().node(id);
  for (const Through& each : through_) {
    if (each.node != id) continue;
    std::size_t at = 0;
    while (at < node.inputs.size() && (node.inputs[at] != each.input || (at < gates.size() && gates[at] >= 0))) ++at;
    if (at == node.inputs.size()) {
      const bool is_rows = node.op == Op::fused_reduction;
      at = append_input(e, {type(each.input).dtype, strides(each.input, e.shape),
                            is_rows ? type(each.input).shape[e.shape.rank() - 1] : 0});
      operands.push_back(operand(each.input));
      if (!gates.empty()) gates.push_back(-1);
    }
    passed.push_back({static_cast<std::uint16_t>(at), each.output});
  }
  return passed;
}

void Lowering::store_passed(const std::vector<Passed>& passed, Expression& e, Operands& operands) const {
  for (const auto& [from, output] : passed) {
    const ValueId value = graph().outputs()[output].value;
    e.results.push_back({from, common::dense_strides(type(value).shape)});
    operands.push_back(output_operand(output));
  }
}

void Lowering::move_output(int output) {
  const ValueId value = graph().outputs()[output].value;
  const Shape& shape = type(value).shape;
  move(type(value).dtype, shape, {operand(value), 0, strides(value, shape)},
       {output_operand(output), 0, common::dense_strides(shape)});
}

}  // namespace unroll::device
