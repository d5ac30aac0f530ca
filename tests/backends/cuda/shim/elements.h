// SPDX-License-Identifier: Apache-2.0
// Numbers in memory by their format, for the libraries that stand in for NVIDIA's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/support/formats.h"
#include "unroll/support/types.h"

namespace unroll::shim {

// Of floats and b8; the library that is tested is not there.
inline std::size_t width_of(DType type) {
  return type == DType::b8 ? 1 : type == DType::f64 ? 8 : type == DType::f32 ? 4 : 2;
}
inline double loaded(DType type, const void* base, std::int64_t i) {
  switch (type) {
    case DType::f64: return static_cast<const double*>(base)[i];
    case DType::bf16: return static_cast<double>(to_float(static_cast<const Bf16*>(base)[i]));
    case DType::f16: return static_cast<double>(to_float(static_cast<const F16*>(base)[i]));
    default: return static_cast<double>(static_cast<const float*>(base)[i]);
  }
}
inline void store(DType type, void* base, std::int64_t i, double value) {
  switch (type) {
    case DType::f64: static_cast<double*>(base)[i] = value; return;
    case DType::bf16: static_cast<Bf16*>(base)[i] = to_bf16(value); return;
    case DType::f16: static_cast<F16*>(base)[i] = to_f16(value); return;
    default: static_cast<float*>(base)[i] = static_cast<float>(value);
  }
}

}  // namespace unroll::shim
