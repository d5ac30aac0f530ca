// SPDX-License-Identifier: Apache-2.0
// Elementwise nodes and fused bodies as register programs.
#include <map>
#include <string>

#include "backends/cpu/kernels.h"
#include "unroll/error.h"

namespace unroll::cpu {

namespace {

// Adds nodes one by one; inputs and constants must come before the first instruction, so registers are renumbered
// at the end.
class SourceBuilder {
 public:
  explicit SourceBuilder(const Shape& shape) { source_.shape = shape; }

  int add_input(const Type& type) {
    source_.inputs.push_back({type.dtype, broadcast_strides(type.shape, source_.shape)});
    return key(Kind::input, source_.inputs.size());
  }
  int add_constant(const Tensor& value) {
    source_.constants.emplace_back(value.dtype(), value.at(0));
    return key(Kind::constant, source_.constants.size());
  }
  int add_node(const Node& node, DType operands, std::span<const int> from) {
    Instruction i{node.op, operands, node.outputs[0].dtype};
    operands_.push_back({from.begin(), from.end()});
    source_.instructions.push_back(i);
    return key(Kind::instruction, source_.instructions.size());
  }
  void add_result(int from) { results_.push_back(from); }

  ElementwiseSource finish() {
    if (source_.inputs.size() + source_.constants.size() + source_.instructions.size() > 0xffff)
      throw Error(ErrorKind::unsupported, "cpu elementwise", "a body of more than 65535 values");
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      std::uint16_t* const to[] = {&source_.instructions[k].a, &source_.instructions[k].b, &source_.instructions[k].c};
      for (std::size_t j = 0; j < operands_[k].size(); ++j) *to[j] = register_of(operands_[k][j]);
    }
    for (const int from : results_) source_.results.push_back({register_of(from), dense_strides(source_.shape)});
    return std::move(source_);
  }

 private:
  enum class Kind { input, constant, instruction };
  static int key(Kind kind, std::size_t count) { return static_cast<int>(count - 1) * 3 + static_cast<int>(kind); }
  std::uint16_t register_of(int key) const {
    const std::size_t starts[] = {0, source_.inputs.size(), source_.inputs.size() + source_.constants.size()};
    return static_cast<std::uint16_t>(starts[key % 3] + static_cast<std::size_t>(key / 3));
  }

  ElementwiseSource source_;
  std::vector<std::vector<int>> operands_;
  std::vector<int> results_;
};

[[noreturn]] void refuse(const Node& node) {
  throw Error(ErrorKind::unsupported, "cpu elementwise",
              "a fused body may hold elementwise ops, broadcast and scalar constants; got " +
                  std::string(op_info(node.op).name));
}

// The dtype of an instruction is that of the values it works on: of the branches for select.
std::size_t leading_operand(Op op) { return op == Op::select ? 1 : 0; }

}  // namespace

ElementwiseSource elementwise_of_node(const Graph& graph, const Node& node) {
  SourceBuilder builder(node.outputs[0].shape);
  std::vector<int> operands;
  for (const ValueId input : node.inputs) operands.push_back(builder.add_input(graph.type(input)));
  const DType dtype = graph.type(node.inputs[leading_operand(node.op)]).dtype;
  builder.add_result(builder.add_node(node, dtype, operands));
  return builder.finish();
}

ElementwiseSource elementwise_of_body(const Graph& body) {
  if (body.outputs().empty()) throw Error(ErrorKind::internal, "cpu elementwise", "a fused body has no outputs");
  SourceBuilder builder(body.type(body.outputs()[0].value).shape);
  std::map<ValueId, int> values;
  for (const NamedValue& input : body.inputs()) values[input.value] = builder.add_input(body.type(input.value));
  for (std::size_t n = 0; n < body.nodes().size(); ++n) {
    const Node& node = body.nodes()[n];
    const ValueId id{static_cast<std::int32_t>(n), 0};
    if (node.op == Op::input) continue;
    if (node.op == Op::constant) {
      const Tensor& value = *node.attributes.get<std::shared_ptr<const Tensor>>("value");
      if (value.elements() != 1) refuse(node);
      values[id] = builder.add_constant(value);
    } else if (node.op == Op::broadcast) {
      values[id] = values.at(node.inputs[0]);
    } else if (is_elementwise(node.op)) {
      std::vector<int> operands;
      for (const ValueId input : node.inputs) operands.push_back(values.at(input));
      values[id] = builder.add_node(node, body.type(node.inputs[leading_operand(node.op)]).dtype, operands);
    } else {
      refuse(node);
    }
  }
  for (const NamedValue& output : body.outputs()) {
    if (body.type(output.value).shape != body.type(body.outputs()[0].value).shape)
      throw Error(ErrorKind::unsupported, "cpu elementwise", "outputs of a fused body differ in shape");
    builder.add_result(values.at(output.value));
  }
  return builder.finish();
}

}  // namespace unroll::cpu
