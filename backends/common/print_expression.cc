// SPDX-License-Identifier: Apache-2.0
#include "backends/common/print_expression.h"

#include <algorithm>

#include "backends/common/walk.h"
#include "unroll/support/error.h"

namespace unroll::common {

namespace {

// Prints loads, statements and stores of element e. Each extent or stride becomes the next run-time size.
class KernelPrinter {
 public:
  KernelPrinter(const Expression& expression, Dialect dialect, const PrintOptions& options)
      : e_(simplified(expression)), dialect_(dialect), dtypes_(register_dtypes(expression)),
        operands_(operands_of(e_)), index_(index_type(dialect, options)), sizes_(dialect, operands_.size()) {
    for (const Strides* strides : operands_) check_short_indices(e_.shape, *strides, options);
    sizes_.values[0] = e_.shape.elements();
  }

  PrintedKernel kernel(const std::string& name) {
    const std::string body = coordinates() + places() + print_statements(e_, dialect_, memory());
    return {head(name) + body + "  }\n}\n", sizes_.values};
  }

 private:
  DType dtype_of(std::size_t operand) const {
    const std::size_t n = e_.inputs.size();
    return operand < n ? dtypes_[operand] : dtypes_[e_.results[operand - n].from];
  }
  std::string name_of(std::size_t operand) const {
    const std::size_t n = e_.inputs.size();
    return operand < n ? "x" + std::to_string(operand) : "y" + std::to_string(operand - n);
  }
  std::string head(const std::string& name) const {
    std::string parameters;
    for (std::size_t k = 0; k < operands_.size(); ++k)
      parameters += (k < e_.inputs.size() ? "const " : "") + memory_type(dtype_of(k)) + "* " + name_of(k) + ", ";
    if (dialect_ == Dialect::cpp)
      return "extern \"C\" void " + name + "(" + parameters + "const " + index_ + "* sizes, " + index_ + " begin, " +
             index_ + " end) {\n  for (" + index_ + " e = begin; e < end; ++e) {\n";
    return sizes_.cuda_struct(name, index_) + "extern \"C\" __global__ void " + name + "(" + parameters + name +
           "_sizes n) {\n  const " + index_ + " step = (" + index_ + ")gridDim.x * blockDim.x;\n  for (" + index_ +
           " e = (" + index_ + ")blockIdx.x * blockDim.x + threadIdx.x; e < n.sizes[0]; e += step) {\n";
  }

  bool is_needed(int axis) const {
    return std::any_of(operands_.begin(), operands_.end(), [&](const Strides* strides) {
      return walk_of(e_.shape, *strides) == Walk::strided && (*strides)[axis] != 0;
    });
  }
  // Prints the coordinates of element e that some operand needs, from the last axis on; `rest` is the remaining index.
  std::string coordinates() {
    std::string text, rest = "e";
    int first = 0;
    while (first < e_.shape.rank() && !is_needed(first)) ++first;
    for (int axis = e_.shape.rank() - 1; axis >= first; --axis) {
      const std::string number = std::to_string(axis), declare = "    const " + index_ + " ";
      if (axis == 0) {
        text += declare + "d0 = " + rest + ";\n";
        continue;
      }
      const std::string extent = sizes_.next(e_.shape[axis]);
      if (is_needed(axis)) text += declare + "d" + number + " = " + rest + " % " + extent + ";\n";
      if (axis > first) text += declare + "e" + number + " = " + rest + " / " + extent + ";\n";
      rest = "e" + number;
    }
    return text;
  }
  // Prints the position of each operand's element: i0, i1 ...
  std::string places() {
    std::string text;
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      const Strides& strides = *operands_[k];
      const Walk walk = walk_of(e_.shape, strides);
      text += "    const " + index_ + " i" + std::to_string(k) + " = " + sizes_.at(1 + k);
      if (walk == Walk::dense) text += " + e";
      for (int axis = 0; walk == Walk::strided && axis < e_.shape.rank(); ++axis) {
        const std::int64_t stride = strides[axis];
        const bool is_inner = axis == e_.shape.rank() - 1 && stride == 1;
        if (stride != 0) text += " + d" + std::to_string(axis) + (is_inner ? "" : " * " + sizes_.next(stride));
      }
      text += ";\n";
    }
    return text;
  }
  Splice memory() {
    return {[this](std::size_t i) {
              const std::string place = "i" + std::to_string(i);
              return e_.inputs[i].is_key ? key_of(name_of(i), place)
                                         : load_of(dtypes_[i], name_of(i), place);
            },
            [this](std::size_t k, const std::string& value) {
              const std::size_t operand = e_.inputs.size() + k;
              return store_of(dtype_of(operand), name_of(operand), "i" + std::to_string(operand), value);
            },
            "e", [this](std::int64_t n) { return sizes_.next(n); }};
  }

  Expression e_;
  Dialect dialect_;
  std::vector<DType> dtypes_;
  std::vector<const Strides*> operands_;
  std::string index_;
  KernelSizes sizes_;
};

bool is_by_element(Op op) { return op == Op::iota || op == Op::random_uniform; }

// An index value or a draw. The innermost and the outermost axis need fewer divisions.
std::string by_element(const Instruction& i, const Shape& shape, const Splice& splice) {
  if (splice.element.empty())
    throw Error(ErrorKind::usage, "print_expression",
                std::string(op_info(i.op).name) + " needs the number of the element; set Splice::element");
  if (i.op == Op::random_uniform)
    return "unroll_draw(" + variable(i.a) + ", uint(" + splice.size(i.rng_stream) + "), " + variable(i.b) + ", " +
           splice.size(i.extent) + ", " + splice.element + ")";
  std::string index = splice.element;
  if (i.inner != 1) index += " / " + splice.size(i.inner);
  if (i.inner * i.extent != shape.elements()) index += " % " + splice.size(i.extent);
  return "int(" + index + ")";
}

}  // namespace

std::string print_prelude(Dialect dialect) {
  const DialectWords& w = words(dialect);
  return std::string(w.includes).append(w.prelude).append(w.math);
}

std::string print_statements(const Expression& expression, Dialect dialect, const Splice& splice,
                             const std::string& indent) {
  std::string text;
  std::size_t r = 0;
  const auto declare = [&](const std::string& type, const std::string& value) {
    text += indent + "const " + type + " " + variable(r++) + " = " + value + ";\n";
  };
  for (std::size_t i = 0; i < expression.inputs.size(); ++i)
    declare(expression.inputs[i].is_key ? "unroll_key" : register_type(expression.inputs[i].dtype), splice.load(i));
  for (const auto& [dtype, value] : expression.constants)
    declare(register_type(dtype), literal(dialect, dtype, value));
  for (const Instruction& i : expression.instructions)
    declare(register_type(result_dtype(i)),
            is_by_element(i.op) ? by_element(i, expression.shape, splice) : right_side(dialect, i));
  for (std::size_t k = 0; k < expression.results.size(); ++k)
    text += indent + splice.store(k, variable(expression.results[k].from)) + "\n";
  return text;
}

PrintedKernel print_kernel(const Expression& expression, Dialect dialect, const std::string& name,
                           const PrintOptions& options) {
  return KernelPrinter(expression, dialect, options).kernel(name);
}

}  // namespace unroll::common
