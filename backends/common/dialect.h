// SPDX-License-Identifier: Apache-2.0
// The languages in which expressions are printed: one row per op and dtype, one column per dialect.
#pragma once

#include <string_view>

#include "unroll/ir/graph.h"

namespace unroll::common {

// C++17, CUDA C++ (nvcc or NVRTC), GLSL 4.50 for Vulkan.
enum class Dialect : std::uint8_t { cpp, cuda, glsl };
inline constexpr Dialect k_dialects[] = {Dialect::cpp, Dialect::cuda, Dialect::glsl};

// What a result is of its operands' names: $a $b $c operands, $T type of the operands (for select of b and c), $R type
// of the result, $f the suffix of C's f32 functions. Empty when the dialect has no such op on that dtype; `to` matters
// for cast only. Meaning and results on NaN, infinities and whole numbers that overflow are those of the reference.
std::string_view formula(Dialect dialect, Op op, DType dtype, DType to);

struct DialectWords {
  std::string_view name;     // "GLSL"
  // Once at the top of each file: what is included, functions that formulas call, and of these the ones for which a
  // program may have its own: unroll_exp, unroll_tanh, unroll_sigmoid.
  std::string_view includes = {}, prelude, math = {};
  std::string_view index, short_index;  // types of indices of 64 and 32 bits; empty when the dialect lacks it
  std::string_view f32_bits, f64_bits;  // a number from its bits: printf formats
};
const DialectWords& words(Dialect dialect);
// Of a register, or of an element in memory. Empty when the dialect lacks the dtype: f64 in GLSL, which has no
// functions for it.
std::string_view register_type(Dialect dialect, DType dtype);
std::string_view memory_type(Dialect dialect, DType dtype);

}  // namespace unroll::common
