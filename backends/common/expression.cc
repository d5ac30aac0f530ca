// SPDX-License-Identifier: Apache-2.0
#include "backends/common/expression.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "unroll/ir/row_sums.h"
#include "unroll/support/error.h"
#include "unroll/support/tensor.h"

namespace unroll::common {

namespace {

// Adds nodes one by one. Inputs and constants must precede the first instruction: registers are renumbered last.
class ExpressionBuilder {
 public:
  explicit ExpressionBuilder(const Shape& shape) { expression_.shape = shape; }

  int add_input(const Type& type) {
    expression_.inputs.push_back({type.dtype, broadcast_strides(type.shape, expression_.shape)});
    return key(Kind::input, expression_.inputs.size());
  }
  int add_key() {
    expression_.inputs.push_back({.dtype = DType::i32, .strides = {}, .is_key = true});
    return key(Kind::input, expression_.inputs.size());
  }
  // The index along an axis of `iota`, which is broadcast to the expression's shape.
  int add_iota(const Node& iota) {
    const Shape &own = iota.outputs[0].shape, &all = expression_.shape;
    Instruction i{Op::iota, DType::i32};
    const int axis = static_cast<int>(iota.attributes.get<std::int64_t>("axis"));
    i.extent = own[axis];
    for (int k = all.rank() - own.rank() + axis + 1; k < all.rank(); ++k) i.inner *= all[k];
    return add(i, {});
  }
  int add_draw(const Node& node, int key, std::optional<int> step) {
    if (node.outputs[0].shape != expression_.shape)
      throw Error(ErrorKind::unsupported, "expression", "a draw of another shape than that of its group");
    Instruction i{Op::random_uniform};
    i.extent = expression_.shape.elements();
    i.rng_stream = static_cast<std::uint32_t>(node.attributes.get<std::int64_t>("rng_stream"));
    const int from[] = {key, step ? *step : add_constant(Tensor::scalar(DType::i32, 0))};
    return add(i, from);
  }
  // Adds an input of a row expression. Its rows may have other columns than the expression's.
  int add_row_input(const Type& type) {
    const Shape& s = type.shape;
    const int last = expression_.shape.rank() - 1;
    const std::int64_t columns = s.rank() == 0 ? 1 : s[s.rank() - 1];
    expression_.inputs.push_back({type.dtype, broadcast_strides(s, expression_.shape.with(last, columns)), columns});
    return key(Kind::input, expression_.inputs.size());
  }
  int add_constant(const Tensor& value) {
    expression_.constants.emplace_back(value.dtype(), value.at(0));
    return key(Kind::constant, expression_.constants.size());
  }
  int add_node(const Node& node, DType operands, std::span<const int> from) {
    return add({node.op, operands, node.outputs[0].dtype}, from);
  }
  int add(const Instruction& instruction, std::span<const int> from) {
    operands_.push_back({from.begin(), from.end()});
    expression_.instructions.push_back(instruction);
    return key(Kind::instruction, expression_.instructions.size());
  }
  void add_result(int from) { add_result(from, expression_.shape); }
  void add_result(int from, const Shape& shape) { results_.emplace_back(from, common::dense_strides(shape)); }

  Expression finish() {
    if (expression_.inputs.size() + expression_.constants.size() + expression_.instructions.size() > 0xffff)
      throw Error(ErrorKind::unsupported, "expression", "a body of more than 65535 values");
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      Instruction& i = expression_.instructions[k];
      std::uint16_t* const to[] = {&i.a, &i.b, &i.c};
      for (std::size_t j = 0; j < operands_[k].size(); ++j) *to[j] = register_of(operands_[k][j]);
    }
    for (const auto& [from, strides] : results_) expression_.results.push_back({register_of(from), strides});
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
  std::vector<std::pair<int, Strides>> results_;
};

[[noreturn]] void refuse(const Node& node) {
  throw Error(ErrorKind::unsupported, "expression",
              "a fused body may hold elementwise ops, broadcast and scalar constants; got " +
                  std::string(op_info(node.op).name));
}

std::optional<int> second_of(std::span<const int> list) {
  return list.size() > 1 ? std::optional(list[1]) : std::nullopt;
}

// True if a draw reads the value as its key.
bool is_key(const Graph& body, const ValueId& id) {
  return std::any_of(body.nodes().begin(), body.nodes().end(),
                     [&](const Node& node) { return node.op == Op::random_uniform && node.inputs[0] == id; });
}

// An instruction has the dtype of its operands; for select that of the branches.
std::size_t leading_operand(Op op) { return op == Op::select ? 1 : 0; }

}  // namespace

Expression expression_of_node(const Graph& graph, const Node& node) {
  ExpressionBuilder builder(node.outputs[0].shape);
  std::vector<int> operands;
  if (node.op == Op::iota || node.op == Op::random_uniform) {
    if (node.op == Op::random_uniform) operands.push_back(builder.add_key());
    if (node.inputs.size() > 1) operands.push_back(builder.add_input(graph.type(node.inputs[1])));
    builder.add_result(node.op == Op::iota ? builder.add_iota(node)
                                           : builder.add_draw(node, operands[0], second_of(operands)));
    return builder.finish();
  }
  for (const ValueId input : node.inputs) operands.push_back(builder.add_input(graph.type(input)));
  const DType dtype = graph.type(node.inputs[leading_operand(node.op)]).dtype;
  builder.add_result(builder.add_node(node, dtype, operands));
  return builder.finish();
}

Expression expression_of_body(const Graph& body) {
  if (body.outputs().empty()) throw Error(ErrorKind::internal, "expression", "a fused body has no outputs");
  ExpressionBuilder builder(body.type(body.outputs()[0].value).shape);
  std::map<ValueId, int> values;
  for (const NamedValue& input : body.inputs())
    values[input.value] =
        is_key(body, input.value) ? builder.add_key() : builder.add_input(body.type(input.value));
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
    } else if (node.op == Op::iota) {
      values[id] = builder.add_iota(node);
    } else if (is_elementwise(node.op) || node.op == Op::random_uniform) {
      std::vector<int> operands;
      for (const ValueId input : node.inputs) operands.push_back(values.at(input));
      values[id] = node.op == Op::random_uniform
                       ? builder.add_draw(node, operands[0], second_of(operands))
                       : builder.add_node(node, body.type(node.inputs[leading_operand(node.op)]).dtype, operands);
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

namespace {

std::int64_t last_of(const Shape& shape) { return shape.rank() == 0 ? 1 : shape[shape.rank() - 1]; }

// Returns the rows of all operands that have rows, with the columns of the widest value.
Shape shape_of_rows(const Graph& body) {
  Shape shape = body.type(body.outputs()[0].value).shape;
  if (shape.rank() < 2) throw Error(ErrorKind::unsupported, "expression", "a fused reduction on values without rows");
  for (const Node& node : body.nodes())
    shape = shape.with(shape.rank() - 1, std::max(shape[shape.rank() - 1], last_of(node.outputs[0].shape)));
  return shape;
}

class RowExpressionBuilder {
 public:
  explicit RowExpressionBuilder(const Graph& body) : body_(body), builder_(shape_of_rows(body)) {}

  Expression build() {
    for (const NamedValue& input : body_.inputs()) {
      const Type& type = body_.type(input.value);
      values_[input.value] = {builder_.add_row_input(type), last_of(type.shape), type.dtype};
    }
    for (std::size_t n = 0; n < body_.nodes().size(); ++n)
      if (body_.nodes()[n].op != Op::input) values_[{static_cast<std::int32_t>(n), 0}] = add(body_.nodes()[n]);
    for (const NamedValue& output : body_.outputs()) {
      const Shape& shape = body_.type(output.value).shape;
      builder_.add_result(whole(output.value).key, shape);
    }
    return builder_.finish();
  }

 private:
  struct Value {
    int key;
    std::int64_t columns;  // in its register; 1: one value for the row
    DType dtype;
  };

  Value add(const Node& node) {
    const Type& type = node.outputs[0];
    const std::int64_t columns = last_of(type.shape);
    switch (node.op) {
      case Op::constant: return add_constant(node);
      case Op::broadcast: return values_.at(node.inputs[0]);  // elementwise instructions repeat it
      case Op::slice: return add_rows(node, {whole(node.inputs[0])}, columns);
      case Op::concat: {
        Value joined = whole(node.inputs[0]);
        for (std::size_t i = 1; i < node.inputs.size(); ++i) joined = add_concat(joined, whole(node.inputs[i]));
        return joined;
      }
      case Op::pad: return add_pad(node);
      case Op::reduce_sum:
      case Op::reduce_max: return add_rows(node, {whole(node.inputs[0])}, 1);
      default: break;
    }
    if (!is_elementwise(node.op)) refuse(node);
    std::vector<int> operands;
    std::int64_t widest = 1;
    for (const ValueId& input : node.inputs) {
      operands.push_back(values_.at(input).key);
      widest = std::max(widest, values_.at(input).columns);
    }
    const DType dtype = body_.type(node.inputs[leading_operand(node.op)]).dtype;
    return {builder_.add_node(node, dtype, operands), widest, type.dtype};
  }
  Value add_constant(const Node& node) {
    const Tensor& value = *node.attributes.get<std::shared_ptr<const Tensor>>("value");
    if (value.elements() != 1) refuse(node);
    return {builder_.add_constant(value), 1, value.dtype()};
  }
  Value add_concat(const Value& a, const Value& b) {
    const int from[] = {a.key, b.key};
    Instruction i{Op::concat, a.dtype, a.dtype};
    i.columns = a.columns + b.columns;
    return {builder_.add(i, from), i.columns, i.dtype};
  }
  // Adds zeros before and after the columns.
  Value add_pad(const Node& node) {
    Value padded = whole(node.inputs[0]);
    const DType dtype = padded.dtype;
    const auto zeros = [&](const char* name) {
      const auto columns = node.attributes.get<std::int64_t>(name);
      return repeated({builder_.add_constant(Tensor::scalar(dtype, 0)), 1, dtype}, columns);
    };
    if (node.attributes.get<std::int64_t>("low") > 0) padded = add_concat(zeros("low"), padded);
    if (node.attributes.get<std::int64_t>("high") > 0) padded = add_concat(padded, zeros("high"));
    return padded;
  }
  Value repeated(const Value& value, std::int64_t columns) {
    if (value.columns == columns) return value;
    Instruction i{Op::broadcast, value.dtype, value.dtype};
    i.columns = columns;
    const int from[] = {value.key};
    return {builder_.add(i, from), columns, value.dtype};
  }
  Value add_rows(const Node& node, std::initializer_list<Value> operands, std::int64_t columns) {
    std::vector<int> from;
    for (const Value& operand : operands) from.push_back(operand.key);
    Instruction i{node.op, operands.begin()->dtype, operands.begin()->dtype};
    i.columns = columns;
    if (node.op == Op::slice) i.first = node.attributes.get<std::int64_t>("start");
    return {builder_.add(i, from), columns, i.dtype};
  }
  // Returns the value with all columns that it has in the graph.
  Value whole(const ValueId& id) {
    Value& value = values_.at(id);
    return value = repeated(value, last_of(body_.type(id).shape));
  }

  const Graph& body_;
  ExpressionBuilder builder_;
  std::map<ValueId, Value> values_;
};

int n_operands(const Instruction& i) { return i.op == Op::concat ? 2 : op_info(i.op).max_inputs; }

}  // namespace

Expression expression_of_rows(const Node& fused_reduction) {
  const Graph& body = *fused_reduction.body;
  if (body.outputs().empty()) throw Error(ErrorKind::internal, "expression", "a fused reduction has no outputs");
  Expression e = RowExpressionBuilder(body).build();
  for (std::size_t k = 0; k < e.results.size(); ++k) {
    const std::int64_t n = rows_per_sum(fused_reduction, k);
    if (n == 0) continue;
    const std::size_t last = e.shape.rank() - 1;
    e.sum_rows = n;
    e.results[k].sums = true;
    e.results[k].strides = {};
    e.results[k].strides[last] = 1;
    e.results[k].strides[last - 1] = last_of(fused_reduction.outputs[k].shape);
  }
  return e;
}

std::vector<std::int64_t> register_columns(const Expression& expression) {
  const auto fail = [](const Instruction& i, const std::string& what) {
    throw Error(ErrorKind::internal, "expression", std::string(op_info(i.op).name) + " " + what);
  };
  std::vector<std::int64_t> columns;
  for (const auto& input : expression.inputs) columns.push_back(input.columns);
  columns.resize(columns.size() + expression.constants.size(), 1);
  for (const Instruction& i : expression.instructions) {
    const std::int64_t a = columns.at(i.a);
    switch (i.op) {
      case Op::reduce_sum:
      case Op::reduce_max: columns.push_back(1); continue;
      case Op::slice:
        if (i.first < 0 || i.columns < 1 || i.first + i.columns > a) fail(i, "reads beyond its operand");
        columns.push_back(i.columns);
        continue;
      case Op::broadcast:
        if (a != 1) fail(i, "repeats more than one value");
        columns.push_back(i.columns);
        continue;
      case Op::concat: columns.push_back(a + columns.at(i.b)); continue;
      default: break;
    }
    std::int64_t widest = 1;
    const std::uint16_t operands[] = {i.a, i.b, i.c};
    for (int k = 0; k < n_operands(i); ++k) {
      const std::int64_t own = columns.at(operands[k]);
      if (own != 1 && widest != 1 && own != widest) fail(i, "has operands of other columns");
      widest = std::max(widest, own);
    }
    columns.push_back(widest);
  }
  return columns;
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
  const auto is_key = [&](std::size_t r) { return r < expression.inputs.size() && expression.inputs[r].is_key; };
  std::vector<DType> dtypes;
  for (const auto& input : expression.inputs) dtypes.push_back(input.dtype);
  for (const auto& [dtype, value] : expression.constants) dtypes.push_back(dtype);
  for (const Instruction& i : expression.instructions) {
    const OpInfo& info = op_info(i.op);
    const std::uint16_t operands[] = {i.a, i.b, i.c};
    for (int k = 0; k < n_operands(i); ++k) {
      const std::uint16_t r = operands[k];
      if (r >= dtypes.size()) fail(std::string(info.name) + " reads register " + std::to_string(r) + " too early");
      const bool draws = i.op == Op::random_uniform;
      if (is_key(r) != (draws && k == 0))
        fail(std::string(info.name) + (draws && k == 0 ? " needs a key" : " reads a key") + " in register " +
             std::to_string(r));
      const DType wanted = draws ? DType::i32 : i.op == Op::select && k == 0 ? DType::b8 : i.dtype;
      if (dtypes[r] != wanted)
        fail(std::string(info.name) + " needs " + std::string(dtype_name(wanted)) + " in register " +
             std::to_string(r));
    }
    dtypes.push_back(result_dtype(i));
  }
  for (const auto& result : expression.results)
    if (result.from >= dtypes.size() || is_key(result.from))
      fail("a result reads register " + std::to_string(result.from));
  return dtypes;
}

}  // namespace unroll::common
