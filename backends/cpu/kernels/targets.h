// SPDX-License-Identifier: Apache-2.0
// Instruction sets of the kernels. Included before any Highway header. Each costs build time and size, so only sets
// with a real difference are kept; SVE and RVV have vectors that cannot be array members.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif

// Loops of constant length over arrays of vectors must be unrolled, or the vectors live in memory.
#if defined(__clang__)
#define UNROLL_FULLY _Pragma("clang loop unroll(full)")
#else
#define UNROLL_FULLY _Pragma("GCC unroll 16")
#endif
