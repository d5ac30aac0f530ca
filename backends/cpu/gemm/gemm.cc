// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/gemm.h"

#include <algorithm>

#include "backends/cpu/gemm/amx.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/gemm/gemm-inl.h"
#if HWY_TARGET == HWY_AVX3
#include "backends/cpu/gemm/gemm-bf16-inl.h"
#include "backends/cpu/gemm/gemm-tiles-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

// Null if the processor or this instruction set lacks the kernels.
inline const GemmKernels* gemm_bf16(Bf16Products way) {
  switch (way) {
    case Bf16Products::converted: return &Gemm<float>::k_from_bf16;
#if HWY_TARGET == HWY_AVX3
    case Bf16Products::pairs:
      return __builtin_cpu_supports("avx512bf16") ? &GemmBf16<NativePairs>::k_kernels : nullptr;
    case Bf16Products::emulated_pairs: return &GemmBf16<EmulatedPairs>::k_kernels;
    case Bf16Products::tiles: return has_bf16_tiles() ? &GemmTiles<NativeTiles>::k_kernels : nullptr;
    case Bf16Products::emulated_tiles: return &GemmTiles<EmulatedTiles>::k_kernels;
#endif
    default: return nullptr;
  }
}

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unroll::cpu {

HWY_EXPORT(gemm_f32);
HWY_EXPORT(gemm_f64);
HWY_EXPORT(gemm_f16);
HWY_EXPORT(gemm_bf16);

namespace {

// Fastest first.
constexpr Bf16Products k_ways[] = {Bf16Products::tiles, Bf16Products::pairs, Bf16Products::converted};
Bf16Products chosen = Bf16Products::best;

Bf16Products bf16_products() {
  if (HWY_DYNAMIC_DISPATCH(gemm_bf16)(chosen)) return chosen;
  return *std::find_if(std::begin(k_ways), std::end(k_ways),
                       [](Bf16Products way) { return HWY_DYNAMIC_DISPATCH(gemm_bf16)(way) != nullptr; });
}

}  // namespace

bool use_bf16_products(Bf16Products way) {
  if (way != Bf16Products::best && !HWY_DYNAMIC_DISPATCH(gemm_bf16)(way)) return false;
  chosen = way;
  return true;
}

const char* bf16_instructions() {
  switch (bf16_products()) {
    case Bf16Products::tiles: return "AMX";
    case Bf16Products::pairs: return "AVX512_BF16";
    default: return nullptr;
  }
}

const GemmKernels& gemm_kernels(DType dtype) {
  switch (dtype) {
    case DType::f64: return *HWY_DYNAMIC_DISPATCH(gemm_f64)();
    case DType::bf16: return *HWY_DYNAMIC_DISPATCH(gemm_bf16)(bf16_products());
    case DType::f16: return *HWY_DYNAMIC_DISPATCH(gemm_f16)();
    default: return *HWY_DYNAMIC_DISPATCH(gemm_f32)();
  }
}

}  // namespace unroll::cpu
#endif
