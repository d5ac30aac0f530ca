// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/elementwise.h"

#include "backends/cpu/kernels/reduce.h"
#include "backends/cpu/kernels/row_kernels.h"

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/elementwise.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/kernels/elementwise-inl.h"
#include "backends/cpu/kernels/row_kernels-inl.h"

#if HWY_ONCE
namespace unroll::cpu {

HWY_EXPORT(find_tile);
HWY_EXPORT(find_pair);
HWY_EXPORT(find_repeated);
HWY_EXPORT(find_repeated_pair);
HWY_EXPORT(find_row_reduction);
HWY_EXPORT(find_sum_of);
HWY_EXPORT(find_accumulation);
HWY_EXPORT(find_accumulation_of_products);
HWY_EXPORT(find_accumulation_of_scaled_products);

Elementwise::TileFunction tile_function(Op op, DType dtype, DType to) {
  return HWY_DYNAMIC_DISPATCH(find_tile)(op, dtype, to);
}

Elementwise::TileFunction pair_function(Op outer, Op inner, bool inner_first, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_pair)(outer, inner, inner_first, dtype);
}

Elementwise::TileFunction repeated_function(Op op, DType dtype, unsigned repeated) {
  return HWY_DYNAMIC_DISPATCH(find_repeated)(op, dtype, repeated);
}

Elementwise::TileFunction repeated_pair_function(Op outer, Op inner, bool inner_first, DType dtype,
                                                 unsigned repeated) {
  return HWY_DYNAMIC_DISPATCH(find_repeated_pair)(outer, inner, inner_first, dtype, repeated);
}

Elementwise::TileFunction row_reduction(Op op, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_row_reduction)(op, dtype);
}

Elementwise::TileFunction row_sum_of(Op op, DType dtype) { return HWY_DYNAMIC_DISPATCH(find_sum_of)(op, dtype); }

Elementwise::TileFunction row_accumulation(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_accumulation)(dtype); }

Elementwise::TileFunction row_accumulation_of_products(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_accumulation_of_products)(dtype);
}

Elementwise::TileFunction row_accumulation_of_scaled_products(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_accumulation_of_scaled_products)(dtype);
}

const char* instruction_set() {
#if HWY_TARGETS & (HWY_TARGETS - 1)
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
#else
  constexpr std::int64_t supported = HWY_TARGETS;  // a single target: no run-time check
#endif
  return hwy::TargetName(supported & -supported);  // a lower bit is a better target
}

}  // namespace unroll::cpu
#endif
