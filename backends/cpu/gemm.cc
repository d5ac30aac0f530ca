// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm.h"

#include "backends/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/gemm-inl.h"

#if HWY_ONCE
namespace unroll::cpu {

HWY_EXPORT(gemm_f32);
HWY_EXPORT(gemm_f64);

const GemmKernels& gemm_kernels(DType dtype) {
  return dtype == DType::f64 ? *HWY_DYNAMIC_DISPATCH(gemm_f64)() : *HWY_DYNAMIC_DISPATCH(gemm_f32)();
}

}  // namespace unroll::cpu
#endif
