// SPDX-License-Identifier: Apache-2.0
// Constant second operands of matmuls: packed once, in the plan's format, and shared by all executables of a backend.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "backends/cpu/kernels/kernels.h"
#include "unroll/passes/backend.h"
#include "unroll/support/tensor.h"

namespace unroll::cpu {

// Kernels for formats with fewer bits than f32. Panel p holds columns [p * columns, (p + 1) * columns), with k rounded
// up to a multiple of `depth`, in a kernel-specific order.
struct WeightKernels {
  const char* name;
  std::int64_t columns;
  std::size_t bytes;  // of a stored weight
  std::int64_t depth;
  // Activations are rounded to 16 bits, with an error of at most the largest of each 512 of a row, divided by 65278. A
  // row with a non-finite activation gives NaN.
  bool rounds_activations;
  // b is f32 [k, n], or [n, k] when transposed; packed and scales are zero before the call.
  void (*pack)(const float* b, std::int64_t stride, bool transposed, std::int64_t k, std::int64_t n, void* packed,
               float* scales);
  // c [m, n] = a [m, k] times panels [begin, end).
  void (*multiply)(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_stride,
                   const void* packed, const float* scales, std::int64_t begin, std::int64_t end, float* c,
                   std::int64_t c_stride);
};
const WeightKernels& weight_kernels(WeightFormat format);  // bf16 or int8

struct PackedWeights {
  WeightFormat format;
  Bytes panels;
  Bytes scales;                          // f32, one per column, rounded up to whole panels
  std::shared_ptr<const Tensor> source;  // keeps its address from being reused
};

// Returns the format in which this matmul stores its weights if the plan requests `wanted`.
WeightFormat format_of(const Matmul& matmul, WeightFormat wanted);
// c = a * weights; needs single() and a row-major a. Returns the block that this worker computed, as run_packed.
Block run_weights(const Matmul& matmul, const void* a, const PackedWeights& weights, void* c, const Worker& worker,
                  void* scratch = nullptr);

class WeightStore {
 public:
  // Packs b, or returns its packed form if another executable still uses it.
  std::shared_ptr<const PackedWeights> get(const std::shared_ptr<const Tensor>& b, const Matmul& matmul,
                                           WeightFormat format);

 private:
  using Key = std::tuple<const Tensor*, WeightFormat, std::int64_t, std::int64_t, bool>;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const PackedWeights>> packed_;
};

}  // namespace unroll::cpu
