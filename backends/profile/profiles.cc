// SPDX-License-Identifier: Apache-2.0
// The table of device profiles. Figures of a device are those of its data sheet, of a family the minimum that its
// specification guarantees. Nothing here was measured on a device.
#include "backends/profile/profiles.h"

namespace unroll::profile {

namespace {

constexpr std::size_t k_mib = std::size_t{1} << 20, k_gb = 1'000'000'000;

// Capabilities of all CUDA devices. Branches run on streams of their own. cuBLASLt assumes pointers aligned to 256
// bytes by default. NVRTC compiles 200 operations in a line within 0.1 s, and 8,000 in 4 s. Tensor cores multiply bf16
// and f16. Their products may flush denormal numbers; scalar arithmetic does not.
void describe_cuda(Capabilities& c, std::int64_t cache_bytes, std::size_t memory_bytes) {
  c.dtypes = {DType::f32, DType::f64, DType::i32, DType::b8, DType::bf16, DType::f16};
  c.flushes_denormals = true;
  c.lengths = LengthsForm::packed;
  c.fuses = c.groups_rows = c.views = c.one_arena = true;
  c.max_fused_ops = 200;
  c.lanes = 4;
  c.alignment = 256;
  c.memory_bytes = memory_bytes;
  c.tuning.fewest_rows = 1;  // the threads of a block share a row
  c.tuning.hoisted_reduction_bytes = c.tuning.deferred_summand_bytes = cache_bytes;
}
void describe_sm_80(Capabilities& c) { describe_cuda(c, 40 * k_mib, 40 * k_gb); }
void describe_sm_89(Capabilities& c) { describe_cuda(c, 36 * k_mib, 12 * k_gb); }
void describe_sm_90(Capabilities& c) { describe_cuda(c, 50 * k_mib, 80 * k_gb); }

// Buffers are bound with ranges of at least 128 MiB (maxStorageBufferRange) at offsets that are multiples of at most
// 256 bytes (minStorageBufferOffsetAlignment). 64-bit floats are optional, and so is keeping denormal numbers. One
// queue runs dispatches without a barrier between them side by side.
void describe_vulkan(Capabilities& c) {
  c.dtypes = {DType::f32, DType::i32, DType::b8};
  c.flushes_denormals = true;
  c.lengths = LengthsForm::packed;
  c.fuses = c.groups_rows = c.views = c.one_arena = true;
  c.lanes = 2;
  c.alignment = 256;
  c.largest_buffer_range = 128 * k_mib;
  c.memory_bytes = 2048 * k_mib;
  c.tuning.sums_in_steps = false;  // a node of a step is a dispatch
  c.tuning.operands_in_steps = c.tuning.joins_products = true;
}
// Mesa 22.3 with LLVM 15: 64-bit floats, a heap of 2 GiB, shaders on the threads of the host.
void describe_lavapipe(Capabilities& c) {
  describe_vulkan(c);
  c.dtypes = {DType::f32, DType::f64, DType::i32, DType::b8};
  c.lanes = 1;
}

// Plans that are printed as C++17 (unroll/passes/cxx_source.h).
void describe_cxx(Capabilities& c) {
  c.dtypes = {DType::f32, DType::i32, DType::b8};
  c.fuses = true;
  c.weights = {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8};
}

constexpr Profile k_profiles[] = {
    {"cuda:sm_80", "NVIDIA A100: 108 multiprocessors, 40 MiB of L2 cache, 40 GB", describe_sm_80},
    {"cuda:sm_89", "NVIDIA RTX 4070: 46 multiprocessors, 36 MiB of L2 cache, 12 GB", describe_sm_89},
    {"cuda:sm_90", "NVIDIA H100: 132 multiprocessors, 50 MiB of L2 cache, 80 GB", describe_sm_90},
    {"cxx:17", "one thread of any processor, for printing C++17", describe_cxx},
    {"vulkan:generic", "any Vulkan 1.2 device: buffer ranges of 128 MiB, 2 GiB", describe_vulkan},
    {"vulkan:lavapipe", "Mesa's Vulkan on the CPU: buffer ranges of 128 MiB, 2 GiB", describe_lavapipe},
};

}  // namespace

std::span<const Profile> profiles() { return k_profiles; }

}  // namespace unroll::profile
