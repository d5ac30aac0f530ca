// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace unroll::cpu {

namespace {

#if defined(__x86_64__) && defined(__linux__)
bool processor_has_them() {
  constexpr unsigned k_bf16 = 1u << 22, k_tiles = 1u << 24;  // CPUID 7.0, edx
  constexpr unsigned k_system_saves = 1u << 27;              // CPUID 1, ecx: OSXSAVE
  constexpr unsigned k_tile_state = 3u << 17;                // XCR0: configuration and data of tiles
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & k_bf16) == 0 || (d & k_tiles) == 0) return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & k_system_saves) == 0) return false;
  unsigned saved = 0, high = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  return (saved & k_tile_state) == k_tile_state;
}

// Tile state takes 8 KiB per thread, so Linux (5.16 and later) grants it only on request.
bool kernel_permits() {
  constexpr long k_request_permission = 0x1023, k_tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, k_request_permission, k_tile_data) == 0;
}
#else
bool processor_has_them() { return false; }
bool kernel_permits() { return false; }
#endif

}  // namespace

bool has_bf16_tiles() {
  static const bool has = processor_has_them() && kernel_permits();
  return has;
}

}  // namespace unroll::cpu
