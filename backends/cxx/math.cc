// SPDX-License-Identifier: Apache-2.0
// exp, tanh and sigmoid as compilers turn them into vectors: the polynomials of backends/cpu/kernels/math-inl.h.
#include "backends/cxx/parts.h"

namespace unroll::cxx {

std::string math_functions() {
  return R"(// e^x = 2^n (1 + p) with |x - n ln2| <= ln2 / 2; relative error below 4 ulp. NaN gives NaN.
struct unroll_power { float n, p; uint bits; };
inline unroll_power unroll_split(float x) {
  const float shifted = x * 0x1.715476p0f + 0x1.8p23f, n = shifted - 0x1.8p23f;  // n in the low bits
  const float r = (x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
  float q = 0x1.6d9908p-10f;
  q = q * r + 0x1.1227fep-7f;
  q = q * r + 0x1.555486p-5f;
  q = q * r + 0x1.5554b0p-3f;
  q = q * r + 0.5f;
  return {n, r * r * q + r, unroll_bits(shifted)};
}
inline float unroll_scaled(const unroll_power& e) {  // in two steps: 2^n may be denormal or too large
  const int n = int(e.bits - unroll_bits(0x1.8p23f)), half = n >> 1;
  return (1.0f + e.p) * unroll_number(uint(half + 127) << 23) * unroll_number(uint(n - half + 127) << 23);
}
inline float unroll_exp(float x) {
  const float low = x < -104.0f ? -104.0f : x;
  return unroll_scaled(unroll_split(low > 89.0f ? 89.0f : low));
}
inline float unroll_tanh(float x) {  // t / (t + 2) with t = e^(2|x|) - 1
  const float size = std::fabs(x), a = size > 10.0f ? 10.0f : size;
  const unroll_power e = unroll_split(a + a);
  const float s = unroll_number((e.bits << 23) + 0x3f800000u), t = s * e.p + (s - 1.0f);
  return std::copysign(t / (t + 2.0f), x);
}
inline float unroll_sigmoid(float x) {  // with z = e^-|x|: 1 / (1 + z), or z / (1 + z) below zero
  const float size = -std::fabs(x), z = unroll_scaled(unroll_split(size < -104.0f ? -104.0f : size));
  return (x < 0.0f ? z : 1.0f) / (1.0f + z);
}
)";
}

}  // namespace unroll::cxx
