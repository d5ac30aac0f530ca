// SPDX-License-Identifier: Apache-2.0
// exp, tanh and sigmoid as compilers turn them into vectors: the polynomials of backends/cpu/kernels/math-inl.h.
#include "backends/cxx/parts.h"

namespace unroll::cxx {

// -ffast-math lets a compiler rearrange sums and forget NaN. The whole part of an exponent passes through bits, so no
// compiler can cancel the number that it is rounded by; the other sums lose digits only. Clang turns the rearranging
// off by a pragma, which other compilers warn about, and GCC has a barrier.
const std::string_view k_math_functions = R"cpp(#ifdef __clang__
#define UNROLL_KEEP_ORDER _Pragma("clang fp reassociate(off)")
#else
#define UNROLL_KEEP_ORDER
#endif
inline float unroll_rounded(float x) {  // x as it is rounded here: no sum may be rearranged across it
#ifdef __has_builtin
#if __has_builtin(__builtin_assoc_barrier)
  return __builtin_assoc_barrier(x);
#endif
#endif
  return x;
}
// Bits are compared, not floats: that needs no branch, and no flag of the compiler takes NaN away.
inline uint unroll_sign(float x) { return unroll_bits(x) & 0x80000000u; }
inline uint unroll_size(float x, int most = 0x7fffffff) {  // the bits of |x|, or of a smaller number
  const int size = int(unroll_bits(x) & 0x7fffffffu);
  return uint(size < most ? size : most);
}
inline float unroll_or_nan(float y, float x) {  // y, or NaN where x is
  return unroll_number(unroll_bits(y) | ((0u - uint(unroll_size(x) > 0x7f800000u)) & 0x7fffffffu));
}
// e^x = 2^n (1 + p) with |x - n ln2| <= ln2 / 2; relative error below 4 ulp. |x| is at most 104.
struct unroll_power { float p; int n; };
inline unroll_power unroll_split(float x) {
  UNROLL_KEEP_ORDER
  const uint bits = unroll_bits(x * 0x1.715476p0f + 0x1.8p23f);  // n in the low bits
  const float n = unroll_number(bits & 0x7fffffffu) - 0x1.8p23f;
  const float r = unroll_rounded(x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
  float q = 0x1.6d9908p-10f;
  q = q * r + 0x1.1227fep-7f;
  q = q * r + 0x1.555486p-5f;
  q = q * r + 0x1.5554b0p-3f;
  q = q * r + 0.5f;
  return {r * r * q + r, int(bits - 0x4b400000u)};  // the bits of 0x1.8p23f
}
inline float unroll_scaled(const unroll_power& e) {  // in two steps: 2^n may be denormal or too large
  UNROLL_KEEP_ORDER
  const int half = e.n >> 1;
  const float low = unroll_number(uint(half + 127) << 23), high = unroll_number(uint(e.n - half + 127) << 23);
  return unroll_rounded((1.0f + e.p) * low) * high;
}
inline float unroll_exp(float x) {
  const uint size = unroll_size(x, 0x42d00000);  // 104
  return unroll_or_nan(unroll_scaled(unroll_split(unroll_number(unroll_sign(x) | size))), x);
}
inline float unroll_tanh(float x) {  // t / (t + 2) with t = e^(2|x|) - 1
  UNROLL_KEEP_ORDER
  const float a = unroll_number(unroll_size(x, 0x41200000));  // 10
  const unroll_power e = unroll_split(a + a);
  const float s = unroll_number((uint(e.n) << 23) + 0x3f800000u);
  const float t = unroll_rounded(s * e.p) + unroll_rounded(s - 1.0f);
  return unroll_or_nan(unroll_number(unroll_bits(t / (t + 2.0f)) | unroll_sign(x)), x);
}
inline float unroll_sigmoid(float x) {  // with z = e^-|x|: 1 / (1 + z), or z / (1 + z) below zero
  const float z = unroll_scaled(unroll_split(unroll_number(0x80000000u | unroll_size(x, 0x42d00000))));
  const uint below = 0u - (unroll_bits(x) >> 31);
  return unroll_or_nan(unroll_number((unroll_bits(z) & below) | (0x3f800000u & ~below)) / (1.0f + z), x);
}
#undef UNROLL_KEEP_ORDER
)cpp";

}  // namespace unroll::cxx
