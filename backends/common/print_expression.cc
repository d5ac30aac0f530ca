// SPDX-License-Identifier: Apache-2.0
#include "backends/common/print_expression.h"

#include "backends/common/print_parts.h"

namespace unroll::common {

namespace {

// Loads, statements and stores of element e.
class KernelPrinter {
 public:
  KernelPrinter(const Expression& expression, Dialect dialect)
      : e_(expression), dialect_(dialect), dtypes_(register_dtypes(expression)) {}

  std::string body() const {
    std::string text = coordinates();
    for (std::size_t i = 0; i < e_.inputs.size(); ++i) {
      const std::string from = "x" + std::to_string(i) + "[" + index(e_.inputs[i].strides) + "]";
      text += "    const " + type_of(dialect_, dtypes_[i]) + " " + variable(i) + " = ";
      text += load_of(dtypes_[i], from) + ";\n";
    }
    text += print_statements(e_, dialect_);
    for (std::size_t k = 0; k < e_.results.size(); ++k) {
      const std::string from = variable(e_.results[k].from);
      text += "    y" + std::to_string(k) + "[" + index(e_.results[k].strides) + "] = ";
      text += store_of(result(k), from) + ";\n";
    }
    return text;
  }
  DType result(std::size_t k) const { return dtypes_[e_.results[k].from]; }
  std::string element(DType dtype) const {
    type_of(dialect_, dtype);  // refuses
    return std::string(memory_type(dialect_, dtype));
  }
  std::string parameters() const {
    std::string text;
    for (std::size_t i = 0; i < e_.inputs.size(); ++i)
      text += "const " + element(dtypes_[i]) + "* x" + std::to_string(i) + ", ";
    for (std::size_t k = 0; k < e_.results.size(); ++k)
      text += (k > 0 ? ", " : "") + element(result(k)) + "* y" + std::to_string(k);
    return text;
  }
  std::string buffers() const {
    std::string text;
    const auto add = [&](std::size_t binding, const char* access, const std::string& type, const std::string& name) {
      text += "layout(std430, set = 0, binding = " + std::to_string(binding) + ") " + access + " buffer B" +
              std::to_string(binding) + " { " + type + " " + name + "[]; };\n";
    };
    for (std::size_t i = 0; i < e_.inputs.size(); ++i) add(i, "readonly", element(dtypes_[i]), "x" + std::to_string(i));
    for (std::size_t k = 0; k < e_.results.size(); ++k)
      add(e_.inputs.size() + k, "writeonly", element(result(k)), "y" + std::to_string(k));
    return text;
  }

 private:
  std::string number(std::int64_t n) const { return std::to_string(n) + std::string(words(dialect_).index_suffix); }
  bool is_dense(const Strides& strides) const {
    std::int64_t stride = 1;
    for (int axis = e_.shape.rank() - 1; axis >= 0; stride *= e_.shape[axis--])
      if (e_.shape[axis] != 1 && strides[static_cast<std::size_t>(axis)] != stride) return false;
    return true;
  }
  bool walks(const Strides& strides, int axis) const {
    return e_.shape[axis] > 1 && strides[static_cast<std::size_t>(axis)] != 0;
  }
  // Of element e, those that some operand needs.
  std::string coordinates() const {
    std::string text;
    std::int64_t inner = 1;
    for (int axis = e_.shape.rank() - 1; axis >= 0; inner *= e_.shape[axis--]) {
      const auto needs = [&](const auto& operand) {
        return !is_dense(operand.strides) && walks(operand.strides, axis);
      };
      bool needed = false;
      for (const auto& input : e_.inputs) needed = needed || needs(input);
      for (const auto& result : e_.results) needed = needed || needs(result);
      if (!needed) continue;
      text += "    const " + std::string(words(dialect_).index) + " d" + std::to_string(axis) + " = e" +
              (inner > 1 ? " / " + number(inner) : "") + " % " + number(e_.shape[axis]) + ";\n";
    }
    return text;
  }
  std::string index(const Strides& strides) const {
    if (is_dense(strides)) return "e";
    std::string text;
    for (int axis = 0; axis < e_.shape.rank(); ++axis)
      if (walks(strides, axis)) {
        if (!text.empty()) text += " + ";
        text += "d" + std::to_string(axis) + " * " + number(strides[static_cast<std::size_t>(axis)]);
      }
    return text.empty() ? "0" : text;
  }

  const Expression& e_;
  Dialect dialect_;
  std::vector<DType> dtypes_;
};

}  // namespace

std::string print_prelude(Dialect dialect) {
  const DialectWords& w = words(dialect);
  const std::string functions = std::string(w.includes).append(w.prelude).append(w.math);
  if (dialect != Dialect::glsl) return functions;
  return "#version 450\n"
         "#extension GL_EXT_shader_8bit_storage : require\n"
         "#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require\n"
         "#extension GL_EXT_shader_16bit_storage : require\n"
         "#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require\n" +
         functions;
}

std::string print_statements(const Expression& expression, Dialect dialect, const std::string& indent) {
  std::string text;
  std::size_t r = expression.inputs.size();
  const auto declare = [&](DType dtype, const std::string& value) {
    text += indent + "const " + type_of(dialect, dtype) + " " + variable(r++) + " = " + value + ";\n";
  };
  for (const auto& [dtype, value] : expression.constants) declare(dtype, literal(dialect, dtype, value));
  for (const Instruction& i : expression.instructions) declare(result_dtype(i), right_side(dialect, i));
  return text;
}

std::string print_kernel(const Expression& expression, Dialect dialect, const std::string& name) {
  const KernelPrinter printer(expression, dialect);
  const std::string n = std::to_string(expression.shape.elements()), body = printer.body();
  switch (dialect) {
    case Dialect::cpp:
      return "extern \"C\" void " + name + "(" + printer.parameters() +
             ", long long begin, long long end) {\n  for (long long e = begin; e < end; ++e) {\n" + body + "  }\n}\n";
    case Dialect::cuda:
      return "extern \"C\" __global__ void " + name + "(" + printer.parameters() +
             ") {\n  const long long step = (long long)gridDim.x * blockDim.x;\n"
             "  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < " +
             n + "; e += step) {\n" + body + "  }\n}\n";
    case Dialect::glsl:
      return "layout(local_size_x = 256) in;\n" + printer.buffers() +
             "void main() {  // " + name + "\n  const uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;\n"
             "  for (uint e = gl_GlobalInvocationID.x; e < " + n + "u; e += step) {\n" + body + "  }\n}\n";
  }
  return {};
}

}  // namespace unroll::common
