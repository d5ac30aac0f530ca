// SPDX-License-Identifier: Apache-2.0
#include "backends/common/print_parts.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/support/formats.h"
#include "unroll/error.h"

namespace unroll::common {

namespace {

[[noreturn]] void refuse(Dialect dialect, const std::string& what) {
  throw Error(ErrorKind::unsupported, "print_expression", std::string(words(dialect).name) + " has no " + what);
}

template <class... Numbers>
std::string formatted(const std::string& format, Numbers... numbers) {
  char text[64];
  std::snprintf(text, sizeof(text), format.c_str(), numbers...);
  return text;
}

}  // namespace

std::string variable(std::size_t r) { return "v" + std::to_string(r); }

std::string literal(Dialect dialect, DType dtype, double value) {
  if (dtype == DType::b8) return value != 0 ? "true" : "false";
  if (dtype == DType::i32) {
    const auto i = static_cast<std::int32_t>(value);  // the lowest has no literal of its own
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
  std::string text = single ? formatted("%.9g", value) : formatted("%.17g", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return single ? text + "f" : text;
}

std::string type_of(Dialect dialect, DType dtype) {
  const std::string_view type = register_type(dialect, dtype);
  if (type.empty()) refuse(dialect, std::string(dtype_name(dtype)));
  return std::string(type);
}

std::string load_of(DType dtype, const std::string& element) {
  if (dtype == DType::b8) return "uint(" + element + ") != 0u";
  return is_half(dtype) ? "uint(" + element + ")" : element;
}

std::string store_of(DType dtype, const std::string& variable) {
  if (dtype == DType::b8) return "uint8_t(" + variable + " ? 1 : 0)";
  return is_half(dtype) ? "uint16_t(" + variable + ")" : variable;
}

std::string right_side(Dialect dialect, const Instruction& i) {
  const std::string_view text = formula(dialect, i.op, i.dtype, i.to);
  if (text.empty()) refuse(dialect, std::string(op_info(i.op).name) + " on " + std::string(dtype_name(i.dtype)));
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
      case 'T': result += type_of(dialect, i.dtype); break;
      case 'R': result += type_of(dialect, result_dtype(i)); break;
      case 'f': result += i.dtype == DType::f32 ? "f" : ""; break;
      default: throw Error(ErrorKind::internal, "print_expression", "a formula holds $" + std::string(1, text[at]));
    }
  }
  return result;
}

}  // namespace unroll::common
