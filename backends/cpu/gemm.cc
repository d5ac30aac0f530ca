// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm.h"

#include "backends/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/gemm-inl.h"
#if HWY_TARGET == HWY_AVX3
#include "backends/cpu/gemm-bf16-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

inline const GemmKernels* gemm_bf16() {
#if HWY_TARGET == HWY_AVX3
  if (emulates_pairs) return &GemmBf16<EmulatedPairs>::k_kernels;
  if (__builtin_cpu_supports("avx512bf16")) return &GemmBf16<NativePairs>::k_kernels;
#endif
  return &Gemm<float>::k_from_bf16;
}

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unroll::cpu {

HWY_EXPORT(gemm_f32);
HWY_EXPORT(gemm_f64);
HWY_EXPORT(gemm_f16);
HWY_EXPORT(gemm_bf16);

bool emulates_pairs = false;
bool emulate_pairs(bool on) {
  emulates_pairs = on;
  return HWY_DYNAMIC_DISPATCH(gemm_bf16)()->operand == DType::bf16;
}

const GemmKernels& gemm_kernels(DType dtype) {
  switch (dtype) {
    case DType::f64: return *HWY_DYNAMIC_DISPATCH(gemm_f64)();
    case DType::bf16: return *HWY_DYNAMIC_DISPATCH(gemm_bf16)();
    case DType::f16: return *HWY_DYNAMIC_DISPATCH(gemm_f16)();
    default: return *HWY_DYNAMIC_DISPATCH(gemm_f32)();
  }
}

}  // namespace unroll::cpu
#endif
