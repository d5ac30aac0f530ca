// SPDX-License-Identifier: Apache-2.0
// Limits of a device for plans and kernels: those that the driver states, and known ones that it does not state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/vulkan/device/functions.h"

namespace unroll::vulkan {

// Limits of drivers that no query reports.
struct DriverLimit {
  VkDriverId driver;
  std::uint32_t iterations;  // of all loops of an invocation together
  const char* why;
};
inline constexpr DriverLimit k_driver_limits[] = {
    // LP_MAX_TGSI_LOOP_ITERATIONS is 65,535; half of it leaves room for loops that the compiler adds.
    {VK_DRIVER_ID_MESA_LLVMPIPE, 30'000, "llvmpipe leaves loops after 65,535 iterations of an invocation, silently"},
};
// Elsewhere: a dispatch must end before the watchdogs of desktop systems (2 s) take it for hung.
inline constexpr std::uint32_t k_iterations = 1u << 20;

struct Limits {
  std::string name, driver;        // "llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe, Mesa 22.3.6"
  std::uint32_t api = 0;           // VK_MAKE_API_VERSION
  // Device and driver, as the driver marks what it compiled.
  std::uint32_t vendor = 0, device = 0, driver_version = 0;
  std::array<std::uint8_t, VK_UUID_SIZE> cache_id = {};
  bool is_cpu = false;
  bool small_sizes = false;          // kernels have the tiles and workgroups of CPU devices
  std::size_t range = 0;           // maxStorageBufferRange, bytes
  std::size_t alignment = 256;     // minStorageBufferOffsetAlignment, bytes
  std::uint32_t buffers = 4;       // storage buffers of a shader
  std::uint32_t local_size = 256;  // invocations of a workgroup
  std::uint32_t groups_x = 65535, groups_y = 65535;
  std::uint32_t shared_bytes = 16384;  // of a workgroup
  std::uint32_t push_words = 32;   // the guaranteed 128 bytes
  std::size_t memory = 0;          // bytes of the largest device-local heap
  std::size_t allocation = 0;      // maxMemoryAllocationSize, bytes
  double tick = 0;                 // ns of a time stamp; 0: the queue has none
  std::uint64_t tick_mask = 0;     // bits of a time stamp that count
  std::uint32_t iterations = k_iterations;
  bool preserve_nan = false;       // shaderSignedZeroInfNanPreserveFloat32
  bool halves = false;             // storageBuffer16BitAccess: bf16 and f16
};

}  // namespace unroll::vulkan
