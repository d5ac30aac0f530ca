// SPDX-License-Identifier: Apache-2.0
#include "backends/common/expression.h"

#include <map>
#include <span>
#include <string>

#include "unroll/error.h"
#include "unroll/tensor.h"

namespace unroll::common {

namespace {

// Adds nodes one by one; inputs and constants must come before the first instruction, so registers are renumbered
// at the end.
class ExpressionBuilder {
 public:
  explicit ExpressionBuilder(const Shape& shape) { expression_.shape = shape; }

  int add_input(const Type& type) {
    expression_.inputs.push_back({type.dtype, broadcast_strides(type.shape, expression_.shape)});
    return key(Kind::input, expression_.inputs.size());
  }
  int add_constant(const Tensor& value) {
    expression_.constants.emplace_back(value.dtype(), value.at(0));
    return key(Kind::constant, expression_.constants.size());
  }
  int add_node(const Node& node, DType operands, std::span<const int> from) {
    Instruction i{node.op, operands, node.outputs[0].dtype};
    operands_.push_back({from.begin(), from.end()});
    expression_.instructions.push_back(i);
    return key(Kind::instruction, expression_.instructions.size());
  }
  void add_result(int from) { results_.push_back(from); }

  Expression finish() {
    if (expression_.inputs.size() + expression_.constants.size() + expression_.instructions.size() > 0xffff)
      throw Error(ErrorKind::unsupported, "expression", "a body of more than 65535 values");
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      Instruction& i = expression_.instructions[k];
      std::uint16_t* const to[] = {&i.a, &i.b, &i.c};
      for (std::size_t j = 0; j < operands_[k].size(); ++j) *to[j] = register_of(operands_[k][j]);
    }
    for (const int from : results_)
      expression_.results.push_back({register_of(from), dense_strides(expression_.shape)});
    return std::move(expression_);
  }

 private:
  enum class Kind { input, constant, instruction };
  static int key(Kind kind, std::size_t count) { return static_cast<int>(count - 1) * 3 + static_cast<int>(kind); }
  std::uint16_t register_of(int key) const {
    const std::size_t n_inputs = expression_.inputs.size(), n_constants = expression_.constants.size();
    const std::size_t starts[] = {0, n_inputs, n_inputs + n_constants};
    return static_cast<std::uint16_t>(starts[key % 3] + static_cast<std::size_t>(key / 3));
  }

  Expression expression_;
  std::vector<std::vector<int>> operands_;
  std::vector<int> results_;
};

[[noreturn]] void refuse(const Node& node) {
  throw Error(ErrorKind::unsupported, "expression",
              "a fused body may hold elementwise ops, broadcast and scalar constants; got " +
                  std::string(op_info(node.op).name));
}

// The dtype of an instruction is that of the values it works on: of the branches for select.
std::size_t leading_operand(Op op) { return op == Op::select ? 1 : 0; }

}  // namespace

Expression expression_of_node(const Graph& graph, const Node& node) {
  ExpressionBuilder builder(node.outputs[0].shape);
  std::vector<int> operands;
  for (const ValueId input : node.inputs) operands.push_back(builder.add_input(graph.type(input)));
  const DType dtype = graph.type(node.inputs[leading_operand(node.op)]).dtype;
  builder.add_result(builder.add_node(node, dtype, operands));
  return builder.finish();
}

Expression expression_of_body(const Graph& body) {
  if (body.outputs().empty()) throw Error(ErrorKind::internal, "expression", "a fused body has no outputs");
  ExpressionBuilder builder(body.type(body.outputs()[0].value).shape);
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
      throw Error(ErrorKind::unsupported, "expression", "outputs of a fused body differ in shape");
    builder.add_result(values.at(output.value));
  }
  return builder.finish();
}

DType result_dtype(const Instruction& i) {
  switch (op_info(i.op).kind) {
    case OpKind::compare:
    case OpKind::logical: return DType::b8;
    case OpKind::cast: return i.to;
    default: return i.op == Op::is_finite ? DType::b8 : i.dtype;
  }
}

std::vector<DType> register_dtypes(const Expression& expression) {
  const auto fail = [](const std::string& what) { throw Error(ErrorKind::internal, "expression", what); };
  std::vector<DType> dtypes;
  for (const auto& input : expression.inputs) dtypes.push_back(input.dtype);
  for (const auto& [dtype, value] : expression.constants) dtypes.push_back(dtype);
  for (const Instruction& i : expression.instructions) {
    const OpInfo& info = op_info(i.op);
    const std::uint16_t operands[] = {i.a, i.b, i.c};
    for (int k = 0; k < info.max_inputs; ++k) {
      const std::uint16_t r = operands[k];
      if (r >= dtypes.size()) fail(std::string(info.name) + " reads register " + std::to_string(r) + " too early");
      const DType wanted = i.op == Op::select && k == 0 ? DType::b8 : i.dtype;
      if (dtypes[r] != wanted)
        fail(std::string(info.name) + " needs " + std::string(dtype_name(wanted)) + " in register " +
             std::to_string(r));
    }
    dtypes.push_back(result_dtype(i));
  }
  for (const auto& result : expression.results)
    if (result.from >= dtypes.size()) fail("a result reads register " + std::to_string(result.from));
  return dtypes;
}

}  // namespace unroll::common
