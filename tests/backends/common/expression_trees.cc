// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/common/expression_trees.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "unroll/support/error.h"

namespace unroll::testing {

namespace {

constexpr DType k_dtypes[] = {DType::f32, DType::f64, DType::i32, DType::b8};

std::int64_t below(Engine& engine, std::int64_t n) {
  return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
}
template <class List>
const auto& any_of(Engine& engine, const List& list) {
  return list[static_cast<std::size_t>(below(engine, static_cast<std::int64_t>(std::size(list))))];
}

bool takes(Op op, DType dtype) {
  Graph graph;
  const int n = op_info(op).max_inputs;
  std::vector<Value> operands;
  for (int k = 0; k < n; ++k)
    operands.push_back(graph.input("x" + std::to_string(k), {op == Op::select && k == 0 ? DType::b8 : dtype, {2}}));
  Attributes attributes;
  if (op == Op::cast) attributes.set("dtype", dtype == DType::f32 ? DType::f64 : DType::f32);
  try {
    graph.append(op, operands, attributes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

class ExpressionGrower {
 public:
  ExpressionGrower(Engine& engine, bool with_f64, std::int64_t larger, bool with_draws)
      : engine_(engine), with_f64_(with_f64), larger_(larger), with_draws_(with_draws && below(engine, 3) == 0) {}

  Expression grow() {
    std::vector<std::int64_t> dims;
    for (std::int64_t rank = below(engine_, 4); rank > 0; --rank) dims.push_back(1 + below(engine_, rank == 1 ? 9 : 4));
    for (std::int64_t& size : dims) size += size > 1 ? larger_ : 0;
    e_.shape = Shape(std::span<const std::int64_t>(dims));
    for (std::int64_t n = 1 + below(engine_, 4); n > 0; --n) {
      e_.inputs.push_back({dtype(), strides()});
      dtypes_.push_back(e_.inputs.back().dtype);
    }
    if (with_draws_ && below(engine_, 2) == 0) {
      key_ = static_cast<int>(dtypes_.size());
      e_.inputs.push_back({.dtype = DType::i32, .strides = {}, .is_key = true});
      dtypes_.push_back(DType::i32);
    }
    for (std::int64_t n = below(engine_, 3); n > 0; --n) {
      const DType d = dtype();
      e_.constants.emplace_back(d, random_number(engine_, d));
      dtypes_.push_back(d);
    }
    for (std::int64_t n = 1 + below(engine_, 20); n > 0; --n) add_instruction();
    const common::Strides dense = common::dense_strides(e_.shape);
    const auto last = static_cast<std::int64_t>(dtypes_.size()) - 1;
    e_.results.push_back({static_cast<std::uint16_t>(last), dense});
    while (below(engine_, 3) == 0) {
      const std::int64_t from = below(engine_, last + 1);
      e_.results.push_back({static_cast<std::uint16_t>(from == key_ ? 0 : from), dense});
    }
    return std::move(e_);
  }

 private:
  // Mostly f32, as in training.
  DType dtype() {
    const DType d = below(engine_, 3) > 0 ? DType::f32 : any_of(engine_, k_dtypes);
    return d == DType::f64 && !with_f64_ ? DType::i32 : d;
  }
  common::Strides strides() {
    common::Strides s = common::dense_strides(e_.shape);
    const std::int64_t kind = below(engine_, 4);
    if (kind == 0)
      for (auto& stride : s) stride = below(engine_, 2) > 0 ? stride : 0;
    if (kind == 1)  // axes in the other order
      for (std::int64_t axis = 0, stride = 1; axis < e_.shape.rank(); ++axis) {
        s[static_cast<std::size_t>(axis)] = stride;
        stride *= e_.shape[static_cast<int>(axis)];
      }
    return s;
  }
  std::uint16_t operand(DType wanted) {
    std::vector<std::uint16_t> fitting;
    for (std::size_t r = 0; r < dtypes_.size(); ++r)
      if (dtypes_[r] == wanted && static_cast<int>(r) != key_) fitting.push_back(static_cast<std::uint16_t>(r));
    // Half of the time the latest: deep as well as wide.
    if (!fitting.empty() && below(engine_, 12) > 0)
      return below(engine_, 2) > 0 ? fitting.back() : any_of(engine_, fitting);
    auto from = static_cast<std::uint16_t>(below(engine_, static_cast<std::int64_t>(dtypes_.size())));
    if (from == key_) from = 0;  // never the first
    push({Op::cast, dtypes_[from], wanted, from});
    return static_cast<std::uint16_t>(dtypes_.size() - 1);
  }
  void add_iota() {
    Instruction i{Op::iota, DType::i32};
    const int rank = e_.shape.rank(), axis = rank == 0 ? 0 : static_cast<int>(below(engine_, rank));
    if (rank > 0) i.extent = e_.shape[axis];
    for (int k = axis + 1; k < rank; ++k) i.inner *= e_.shape[k];
    push(i);
  }
  void add_draw() {
    Instruction i{Op::random_uniform};
    i.a = static_cast<std::uint16_t>(key_);
    i.b = operand(DType::i32);
    i.extent = e_.shape.elements();
    i.rng_stream = static_cast<std::uint32_t>(below(engine_, 1000));
    push(i);
  }
  void add_instruction() {
    if (with_draws_ && below(engine_, 8) == 0) return key_ >= 0 && below(engine_, 3) > 0 ? add_draw() : add_iota();
    static const std::map<Op, std::vector<DType>> ops = [] {
      std::map<Op, std::vector<DType>> list;
      for (const OpInfo& info : op_table())
        if (is_elementwise(info.op)) list[info.op] = dtypes_of(info.op);
      return list;
    }();
    const auto& [op, dtypes] = *std::next(ops.begin(), below(engine_, static_cast<std::int64_t>(ops.size())));
    DType d = dtype();
    while (std::find(dtypes.begin(), dtypes.end(), d) == dtypes.end() || (d == DType::f64 && !with_f64_))
      d = any_of(engine_, dtypes);
    Instruction i{op, d, op == Op::cast ? dtype() : DType::f32};
    std::uint16_t* const operands[] = {&i.a, &i.b, &i.c};
    for (int k = 0; k < op_info(op).max_inputs; ++k)
      *operands[k] = operand(op == Op::select && k == 0 ? DType::b8 : d);
    push(i);
  }
  void push(const Instruction& i) {
    e_.instructions.push_back(i);
    dtypes_.push_back(common::result_dtype(i));
  }

  Engine& engine_;
  bool with_f64_;
  std::int64_t larger_;
  bool with_draws_;
  int key_ = -1;  // register
  Expression e_;
  std::vector<DType> dtypes_;  // of registers
};

}  // namespace

std::vector<DType> dtypes_of(Op op) {
  std::vector<DType> list;
  for (const DType dtype : k_dtypes)
    if (takes(op, dtype)) list.push_back(dtype);
  return list;
}

Expression random_expression(Engine& engine, bool with_f64, std::int64_t larger, bool with_draws) {
  return ExpressionGrower(engine, with_f64, larger, with_draws).grow();
}

bool has_draws(const Expression& expression) {
  return std::any_of(expression.instructions.begin(), expression.instructions.end(), [](const Instruction& i) {
    return i.op == Op::iota || i.op == Op::random_uniform;
  });
}

std::int64_t extent_of(const Shape& shape, const common::Strides& strides) {
  std::int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) last += (shape[axis] - 1) * strides[static_cast<std::size_t>(axis)];
  return last + 1;
}

std::int64_t extent_of(const Shape& shape, const Expression::Input& input) {
  return input.is_key ? 3 : extent_of(shape, input.strides);
}

std::int64_t offset_of(const Shape& shape, const common::Strides& strides, std::int64_t element) {
  std::int64_t sum = 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    sum += element % shape[axis] * strides[static_cast<std::size_t>(axis)];
    element /= shape[axis];
  }
  return sum;
}

double random_number(Engine& engine, DType dtype) {
  using F = std::numeric_limits<float>;
  using I = std::numeric_limits<std::int32_t>;
  static constexpr double floats[] = {0,  -0.0, 1,   -1,   0.5, F::infinity(), -F::infinity(), F::quiet_NaN(),
                                      88, -104, 3e9, -3e9, 1e30};
  static constexpr double ints[] = {0, 1, -1, 2, 24, I::min(), I::max()};
  const bool odd = below(engine, 8) == 0;
  if (dtype == DType::b8) return static_cast<double>(below(engine, 2));
  if (dtype == DType::i32) return odd ? any_of(engine, ints) : static_cast<double>(below(engine, 19) - 9);
  return odd ? any_of(engine, floats) : static_cast<double>(below(engine, 8001) - 4000) / 1024;
}

std::vector<std::byte> bytes_of(DType dtype, const std::vector<double>& numbers) {
  Tensor tensor(dtype, Shape{static_cast<std::int64_t>(numbers.size())});
  for (std::size_t k = 0; k < numbers.size(); ++k) tensor.set(static_cast<std::int64_t>(k), numbers[k]);
  return {tensor.bytes().begin(), tensor.bytes().end()};
}

double number_at(DType dtype, const std::vector<std::byte>& bytes, std::int64_t element) {
  Tensor one(dtype, Shape{});
  const std::size_t size = one.bytes().size();
  std::memcpy(one.bytes().data(), bytes.data() + static_cast<std::size_t>(element) * size, size);
  return one.at(0);
}

std::string text_of(const Expression& expression) {
  std::string text = "over " + expression.shape.text() + ":";
  for (const auto& input : expression.inputs) text += " " + std::string(dtype_name(input.dtype));
  for (const auto& [dtype, value] : expression.constants)
    text += " " + std::string(dtype_name(dtype)) + "=" + std::to_string(value);
  for (const Instruction& i : expression.instructions)
    text += "; " + std::string(op_info(i.op).name) + " " + std::string(dtype_name(i.dtype)) + " " +
            std::to_string(i.a) + " " + std::to_string(i.b) + " " + std::to_string(i.c);
  return text;
}

}  // namespace unroll::testing
