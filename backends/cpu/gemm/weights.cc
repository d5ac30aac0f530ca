// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/weights.h"

#include <algorithm>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/product_cut.h"

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/weights.cc"
#include <hwy/foreach_target.h>

#include "backends/cpu/gemm/weights-inl.h"
#if HWY_TARGET == HWY_AVX3
#include "backends/cpu/gemm/weights-dot-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

inline const WeightKernels* weights_int8() {
#if HWY_TARGET == HWY_AVX3
  if (__builtin_cpu_supports("avx512vnni")) return &DotInt8::k_kernels;
#endif
  return &Stored<AsInt8>::k_kernels;
}

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unroll::cpu {

HWY_EXPORT(weights_bf16);
HWY_EXPORT(weights_int8);

const WeightKernels& weight_kernels(WeightFormat format) {
  return format == WeightFormat::int8 ? *HWY_DYNAMIC_DISPATCH(weights_int8)() : *HWY_DYNAMIC_DISPATCH(weights_bf16)();
}

namespace {

std::int64_t panels_of(const Matmul& matmul, const WeightKernels& kernels) {
  return (matmul.n + kernels.columns - 1) / kernels.columns;
}

PackedWeights packed_weights(const std::shared_ptr<const Tensor>& b, const Matmul& mm, WeightFormat format) {
  const std::byte* const from = b->bytes().data();
  if (format == WeightFormat::f32) {
    PackedWeights w{format, Bytes(packed_bytes(mm)), {}, b};
    run_pack(mm, from, w.panels.data(), Worker{});
    return w;
  }
  const WeightKernels& kernels = weight_kernels(format);
  const std::size_t columns = panels_of(mm, kernels) * kernels.columns;
  const std::size_t depth = (mm.k + kernels.depth - 1) / kernels.depth * kernels.depth;
  PackedWeights w{format, Bytes(columns * depth * kernels.bytes), Bytes(columns * sizeof(float)), b};
  kernels.pack(reinterpret_cast<const float*>(from), mm.b_stride, mm.transpose_b, mm.k, mm.n, w.panels.data(),
               reinterpret_cast<float*>(w.scales.data()));
  return w;
}

}  // namespace

WeightFormat format_of(const Matmul& matmul, WeightFormat wanted) {
  constexpr std::int64_t k_few_weights = 4096;
  return matmul.dtype == DType::f32 && matmul.k * matmul.n >= k_few_weights ? wanted : WeightFormat::f32;
}

Block run_weights(const Matmul& mm, const void* a, const PackedWeights& weights, void* c, const Worker& worker,
                  void* scratch) {
  if (weights.format == WeightFormat::f32) return run_packed(mm, a, weights.panels.data(), c, worker, scratch);
  const WeightKernels& kernels = weight_kernels(weights.format);
  const Range mine = worker.share(panels_of(mm, kernels));
  const std::int64_t at_once = mm.a_windows ? cut::cut_of(mm, gemm_kernels(mm.dtype)).rows : mm.m;
  for (std::int64_t row = 0; row < mm.m; row += at_once) {
    const std::int64_t m = std::min(at_once, mm.m - row);
    if (mm.a_windows) mm.a_windows->copy(sizeof(float), a, row, m, 0, mm.k, scratch, mm.k);
    kernels.multiply(m, mm.n, mm.k, static_cast<const float*>(mm.a_windows ? scratch : a),
                     mm.a_windows ? mm.k : mm.a_stride, weights.panels.data(),
                     reinterpret_cast<const float*>(weights.scales.data()), mine.begin, mine.end,
                     static_cast<float*>(c) + row * mm.c_stride, mm.c_stride);
  }
  return {{0, mm.m}, {mine.begin * kernels.columns, std::min(mine.end * kernels.columns, mm.n)}};
}

std::shared_ptr<const PackedWeights> WeightStore::get(const std::shared_ptr<const Tensor>& b, const Matmul& matmul,
                                                      WeightFormat format) {
  const Key key{b.get(), format, matmul.k, matmul.n, matmul.transpose_b};
  const std::lock_guard lock(mutex_);
  std::erase_if(packed_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto at = packed_.find(key); at != packed_.end())
    if (auto found = at->second.lock()) return found;
  auto made = std::make_shared<const PackedWeights>(packed_weights(b, matmul, format));
  packed_[key] = made;
  return made;
}

}  // namespace unroll::cpu
#endif
