// SPDX-License-Identifier: Apache-2.0
// exp, expm1, log, log1p, tanh, sigmoid and rounding of f32 in shaders: never the driver's, whose tanh and exp are
// wrong on some devices for large arguments. Algorithms and coefficients are those of backends/cpu/kernels/math-inl.h.
#pragma once

#include "backends/vulkan/kernels/code.h"

namespace unroll::vulkan {

Term exp_of(Term x);
Term expm1_of(Term x);
Term log_of(Term x);
Term log1p_of(Term x);
Term tanh_of(Term x);
Term sigmoid_of(Term x);
Term is_nan(Term x);
Term is_finite_of(Term x);
// To nearest, ties to even, with so many mantissa bits dropped: 16 for bf16, 13 for tf32.
Term round_bits(Term x, std::uint32_t dropped);
Term round_f16_of(Term x);

// 16-bit formats: u32 with the bits, and f32. Integers keep the numbers of f16 that are too small to be normal.
Term from_bf16(Term bits);
Term from_f16(Term bits);
Term to_bf16(Term x);
Term to_f16(Term x);

}  // namespace unroll::vulkan
