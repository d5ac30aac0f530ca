// SPDX-License-Identifier: Apache-2.0
// Treats denormals as zero in this thread during the object's lifetime: arithmetic on them is tens of times slower on
// many processors. The destructor restores the caller's setting.
#pragma once

#include <cstdint>

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace unroll::cpu {

class FlushDenormals {
 public:
  FlushDenormals() : before_(get()) { set(before_ | k_bits); }
  ~FlushDenormals() { set(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE__) || defined(_M_X64)
  using Word = std::uint32_t;
  static constexpr Word k_bits = 0x8040;  // flush to zero, denormals are zero
  static Word get() { return _mm_getcsr(); }
  static void set(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word k_bits = Word{1} << 24;  // FZ
  static Word get() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void set(Word word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = std::uint32_t;
  static constexpr Word k_bits = 0;
  static Word get() { return 0; }
  static void set(Word) {}
#endif
  const Word before_;
};

}  // namespace unroll::cpu
