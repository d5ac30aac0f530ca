// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/reduce.h"

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/kernels/reduce-inl.h"

#if HWY_ONCE
namespace unroll::cpu {

HWY_EXPORT(find_reduction);

const ReduceKernels& reduce_kernels(Op op, DType dtype) { return *HWY_DYNAMIC_DISPATCH(find_reduction)(op, dtype); }

}  // namespace unroll::cpu
#endif
