// SPDX-License-Identifier: Apache-2.0
#include "backends/common/print_parts.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

#include "core/support/formats.h"
#include "core/support/text/exact_text.h"
#include "unroll/support/error.h"

namespace unroll::common {

namespace {

bool is_small(DType dtype) { return dtype == DType::b8 || is_half(dtype); }

template <class... Numbers>
std::string formatted(const std::string& format, Numbers... numbers) {
  char text[64];
  std::snprintf(text, sizeof(text), format.c_str(), numbers...);
  return text;
}

// Tree reduction over the threads of a row. The number of threads need not be a power of two.
constexpr std::string_view k_row_functions = R"(template <class T>
__device__ inline T unroll_sum(T a, T b) { return a + b; }
__device__ inline int unroll_sum(int a, int b) { return int(uint(a) + uint(b)); }
template <class T>
__device__ inline T unroll_max(T a, T b) { return a > b || a != a ? a : b; }
#define UNROLL_ROW_REDUCTION(kind)                                      \
  template <class T>                                                    \
  __device__ inline T unroll_row_##kind(T x) {                          \
    __shared__ T part[1024];                                            \
    const unsigned lane = threadIdx.x;                                  \
    part[lane] = x;                                                     \
    for (unsigned n = blockDim.x; n > 1; n = (n + 1) / 2) {             \
      const unsigned half = (n + 1) / 2;                                \
      __syncthreads();                                                  \
      if (lane + half < n)                                              \
        part[lane] = unroll_##kind(part[lane], part[lane + half]);      \
    }                                                                   \
    __syncthreads();                                                    \
    const T all = part[0];                                              \
    __syncthreads();                                                    \
    return all;                                                         \
  }
UNROLL_ROW_REDUCTION(sum)
UNROLL_ROW_REDUCTION(max)
)";

}  // namespace

std::string variable(std::size_t r) { return "v" + std::to_string(r); }

std::string literal(Dialect dialect, DType dtype, double value) {
  if (dtype == DType::b8) return value != 0 ? "true" : "false";
  if (dtype == DType::i32) {
    const auto i = static_cast<std::int32_t>(value);  // the lowest i32 has no literal
    return i == std::numeric_limits<std::int32_t>::min() ? "-2147483647 - 1" : std::to_string(i);
  }
  if (dtype == DType::bf16) return std::to_string(to_bf16(value).bits) + "u";
  if (dtype == DType::f16) return std::to_string(to_f16(value).bits) + "u";
  const bool single = dtype == DType::f32;
  const DialectWords& w = words(dialect);
  if (!std::isfinite(value) && single)
    return formatted(std::string(w.f32_bits), std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  if (!std::isfinite(value))
    return formatted(std::string(w.f64_bits), static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
  std::string text = short_text(value, single ? 9 : 17);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return single ? text + "f" : text;
}

std::string index_type(Dialect dialect, const PrintOptions& options) {
  const DialectWords& w = words(dialect);
  return std::string(options.short_indices ? w.short_index : w.index);
}

std::string load_of(DType dtype, const std::string& buffer, const std::string& index) {
  const std::string element = buffer + "[" + index + "]";
  if (!is_small(dtype)) return element;
  return "uint(" + element + ")" + (dtype == DType::b8 ? " != 0u" : "");
}

std::string key_of(const std::string& buffer, const std::string& index) {
  return "unroll_key_of(" + buffer + "[" + index + "], " + buffer + "[" + index + " + 1], " + buffer + "[" + index +
         " + 2])";
}

std::string store_of(DType dtype, const std::string& buffer, const std::string& index, const std::string& variable) {
  const std::string element = buffer + "[" + index + "]";
  if (dtype == DType::b8) return element + " = uint8_t(" + variable + " ? 1u : 0u);";
  return element + " = " + (is_half(dtype) ? "uint16_t(" + variable + ")" : variable) + ";";
}

std::string KernelSizes::at(std::size_t k) const {
  return (dialect == Dialect::cuda ? "n.sizes[" : "sizes[") + std::to_string(k) + "]";
}
std::string KernelSizes::next(std::int64_t value) {
  values.push_back(value);
  return at(values.size() - 1);
}
std::string KernelSizes::cuda_struct(const std::string& kernel, const std::string& index) const {
  return "struct " + kernel + "_sizes { " + index + " sizes[" + std::to_string(values.size()) + "]; };\n";
}
void check_short_indices(const Shape& shape, const Strides& strides, const PrintOptions& options) {
  constexpr std::int64_t end = std::int64_t{1} << 31;
  std::int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) last += (shape[axis] - 1) * strides[axis];
  if (options.short_indices && (last >= end || shape.elements() >= end))
    throw Error(ErrorKind::unsupported, "print_expression", "a shape of " + shape.text() + " needs indices of 64 bits");
}

std::string right_side(Dialect dialect, const Instruction& i) {
  const std::string_view text = formula(dialect, i.op, i.dtype, i.to);
  if (text.empty())
    throw Error(ErrorKind::unsupported, "print_expression",
                std::string(words(dialect).name) + " has no " + std::string(op_info(i.op).name) + " on " +
                    std::string(dtype_name(i.dtype)));
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '$') {
      result += text[at];
      continue;
    }
    switch (text[++at]) {
      case 'a': result += variable(i.a); break;
      case 'b': result += variable(i.b); break;
      case 'c': result += variable(i.c); break;
      case 'T': result += register_type(i.dtype); break;
      case 'R': result += register_type(result_dtype(i)); break;
      case 'f': result += i.dtype == DType::f32 ? "f" : ""; break;
      default: throw Error(ErrorKind::internal, "print_expression", "a formula holds $" + std::string(1, text[at]));
    }
  }
  return result;
}

std::string print_row_prelude() { return std::string(k_row_functions); }

}  // namespace unroll::common
