// SPDX-License-Identifier: Apache-2.0
// Languages for printed expressions: one row per op and dtype, one column per dialect.
#pragma once

#include <string>
#include <string_view>

#include "unroll/ir/graph.h"

namespace unroll::common {

// C++17, CUDA C++ (nvcc or NVRTC).
enum class Dialect : std::uint8_t { cpp, cuda };
inline constexpr Dialect k_dialects[] = {Dialect::cpp, Dialect::cuda};

// Returns the formula of an op: $a $b $c are operands, $T is their type (for select that of b and c), $R is the result
// type. $f is the suffix of C's f32 functions. Empty if the op does not take that dtype; `to` matters for cast
// only. Results for NaN, infinities and overflowing integers equal those of the reference.
std::string_view formula(Dialect dialect, Op op, DType dtype, DType to);

struct DialectWords {
  std::string_view name;     // "CUDA C++"
  // Printed once at the top of each file: includes, functions that formulas call, and the functions that a program may
  // replace: unroll_exp, unroll_tanh, unroll_sigmoid.
  std::string_view includes = {}, prelude, math = {};
  std::string_view index, short_index;  // types of 64-bit and 32-bit indices
  std::string_view f32_bits, f64_bits;  // printf formats that make a number from its bits
};
const DialectWords& words(Dialect dialect);
// Returns the type of a register or of an element in memory.
std::string register_type(DType dtype);
std::string memory_type(DType dtype);

}  // namespace unroll::common
