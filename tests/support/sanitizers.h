// SPDX-License-Identifier: Apache-2.0
// Which sanitizers this program is built with: some tests measure what a sanitizer changes. g++ and clang say it
// differently.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNROLL_ADDRESS_SANITIZER
#endif
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define UNROLL_OTHER_SANITIZER
#endif
#else
#if defined(__SANITIZE_ADDRESS__)
#define UNROLL_ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__)
#define UNROLL_OTHER_SANITIZER
#endif
#endif
#if defined(UNROLL_ADDRESS_SANITIZER) || defined(UNROLL_OTHER_SANITIZER)
#define UNROLL_SANITIZED
#endif

namespace unroll::testing {

// AddressSanitizer keeps freed memory in quarantine: how large the process becomes then says nothing about the run.
#if defined(UNROLL_ADDRESS_SANITIZER)
inline constexpr bool k_keeps_freed_memory = true;
#else
inline constexpr bool k_keeps_freed_memory = false;
#endif

}  // namespace unroll::testing
