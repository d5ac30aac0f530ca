// SPDX-License-Identifier: Apache-2.0
#include "backends/common/dialect.h"

namespace unroll::common {

namespace {

// Operand dtypes that a row supports.
enum Kinds : std::uint8_t {
  f32 = 1,
  f64 = 2,
  i32 = 4,
  b8 = 8,
  bf16 = 16,
  f16 = 32,
  floats = f32 | f64,
  all = floats | i32 | b8,
  any = all | bf16 | f16
};
constexpr std::uint8_t k_kind[] = {f32, f64, i32, b8, bf16, f16};  // in the order of DType

struct Row {
  Op op;
  std::uint8_t dtypes;
  std::string_view cpp, cuda;
  constexpr Row(Op o, std::uint8_t d, std::string_view in_all) : Row(o, d, in_all, in_all) {}
  constexpr Row(Op o, std::uint8_t d, std::string_view cpp_, std::string_view cuda_)
      : op(o), dtypes(d), cpp(cpp_), cuda(cuda_) {}
};

constexpr std::string_view k_round_bf16 = "unroll_round($a, 7, -126, $T(3.38953139e38))";
constexpr std::string_view k_round_f16 = "unroll_round($a, 10, -14, $T(65504.0))";
constexpr std::string_view k_round_tf32 = "unroll_round($a, 10, -126, $T(3.4011622e38))";

// i32 wraps, so it is computed on unsigned numbers. b8 registers are truth values.
constexpr Row k_rows[] = {
    {Op::neg, floats, "-$a"},
    {Op::neg, i32, "int(0u - uint($a))"},
    {Op::abs, floats, "std::fabs($a)", "fabs$f($a)"},
    {Op::abs, i32, "$a < 0 ? int(0u - uint($a)) : $a"},
    {Op::sign, floats, "$a != $a ? $a : $T(int($a > $T(0)) - int($a < $T(0)))"},
    {Op::sign, i32, "int($a > 0) - int($a < 0)"},
    {Op::exp, floats, "unroll_exp($a)", "exp$f($a)"},
    {Op::expm1, floats, "std::expm1($a)", "expm1$f($a)"},
    {Op::log, floats, "std::log($a)", "log$f($a)"},
    {Op::log1p, floats, "std::log1p($a)", "log1p$f($a)"},
    {Op::sqrt, floats, "std::sqrt($a)", "sqrt$f($a)"},
    {Op::tanh, floats, "unroll_tanh($a)", "tanh$f($a)"},
    {Op::sigmoid, floats, "unroll_sigmoid($a)"},
    {Op::erf, floats, "std::erf($a)", "erf$f($a)"},
    {Op::round_bf16, floats, k_round_bf16},
    {Op::round_f16, floats, k_round_f16},
    {Op::round_tf32, floats, k_round_tf32},
    {Op::stop_gradient, any, "$a"},
    {Op::is_finite, floats, "std::isfinite($a)", "bool(isfinite($a))"},

    {Op::add, floats, "$a + $b"},
    {Op::add, i32, "int(uint($a) + uint($b))"},
    {Op::sub, floats, "$a - $b"},
    {Op::sub, i32, "int(uint($a) - uint($b))"},
    {Op::mul, floats, "$a * $b"},
    {Op::mul, i32, "int(uint($a) * uint($b))"},
    {Op::div, floats, "$a / $b"},
    {Op::div, i32, "$b == 0 ? 0 : $b == -1 ? int(0u - uint($a)) : $a / $b"},
    {Op::maximum, floats, "$a > $b || $a != $a ? $a : $b"},
    {Op::maximum, i32, "$a > $b ? $a : $b"},
    {Op::minimum, floats, "$a < $b || $a != $a ? $a : $b"},
    {Op::minimum, i32, "$a < $b ? $a : $b"},

    {Op::less, floats | i32, "$a < $b"},
    {Op::less, b8, "!$a && $b"},
    {Op::less_equal, floats | i32, "$a <= $b"},
    {Op::less_equal, b8, "!$a || $b"},
    {Op::equal, all, "$a == $b"},
    {Op::logical_and, b8, "$a && $b"},
    {Op::logical_or, b8, "$a || $b"},
    {Op::logical_not, b8, "!$a"},
    {Op::select, any, "$a ? $b : $c"},
};

struct CastRow {
  std::uint8_t from, to;
  Row row;
};
// Float to i32 truncates, saturates at the limits and maps NaN to 0; every value except 0 is true.
#define UNROLL_SATURATE(a, T)                                          \
  a " != " a " ? 0 : " a " >= " T "(2147483648.0) ? 2147483647 : " a  \
    " <= " T "(-2147483648.0) ? -2147483647 - 1 : int(" a ")"
constexpr std::string_view k_saturate = UNROLL_SATURATE("$a", "$T");
constexpr std::string_view k_saturate_bf16 = UNROLL_SATURATE("unroll_from_bf16($a)", "float");
constexpr std::string_view k_saturate_f16 = UNROLL_SATURATE("unroll_from_f16($a)", "float");
// Rounds once from formats wider than f32.
constexpr std::string_view k_double_to_bf16 =
    "unroll_to_bf16(float(unroll_round(double($a), 7, -126, 3.3895313892515355e38)))";
constexpr std::string_view k_double_to_f16 = "unroll_to_f16(float(unroll_round(double($a), 10, -14, 65504.0)))";
constexpr CastRow k_casts[] = {
    {floats, i32, {Op::cast, floats, k_saturate}},
    {floats | i32, b8, {Op::cast, floats | i32, "$a != $T(0)"}},
    {all, all, {Op::cast, all, "$R($a)"}},
    // Registers of 16-bit values hold the bits; arithmetic is on f32.
    {bf16, f32, {Op::cast, bf16, "unroll_from_bf16($a)"}},
    {f16, f32, {Op::cast, f16, "unroll_from_f16($a)"}},
    {f32, bf16, {Op::cast, f32, "unroll_to_bf16($a)"}},
    {f32, f16, {Op::cast, f32, "unroll_to_f16($a)"}},
    {bf16, f64, {Op::cast, bf16, "double(unroll_from_bf16($a))"}},
    {f16, f64, {Op::cast, f16, "double(unroll_from_f16($a))"}},
    {bf16, i32, {Op::cast, bf16, k_saturate_bf16}},
    {f16, i32, {Op::cast, f16, k_saturate_f16}},
    {bf16, b8, {Op::cast, bf16, "unroll_from_bf16($a) != 0.0f"}},
    {f16, b8, {Op::cast, f16, "unroll_from_f16($a) != 0.0f"}},
    {bf16, f16, {Op::cast, bf16, "unroll_to_f16(unroll_from_bf16($a))"}},
    {f16, bf16, {Op::cast, f16, "unroll_to_bf16(unroll_from_f16($a))"}},
    {bf16 | f16, bf16 | f16, {Op::cast, any, "$a"}},
    {b8, bf16, {Op::cast, b8, "unroll_to_bf16(float($a))"}},
    {b8, f16, {Op::cast, b8, "unroll_to_f16(float($a))"}},
    {f64 | i32, bf16, {Op::cast, any, k_double_to_bf16}},
    {f64 | i32, f16, {Op::cast, any, k_double_to_f16}},
};

// Printed in all dialects after unroll_bits and unroll_number; functions begin with UNROLL_INLINE. Below 2^-14, the
// smallest normal f16, adding 0.5 leaves multiples of 2^-24 in the last bits.
#define UNROLL_HALVES                                                                                            \
  "UNROLL_INLINE float unroll_from_bf16(uint a) { return unroll_number(a << 16); }\n"                            \
  "UNROLL_INLINE uint unroll_to_bf16(float x) {\n"                                                               \
  "  const uint bits = unroll_bits(x), kept = bits >> 16;\n"                                                     \
  "  return (bits & 0x7fffffffu) > 0x7f800000u ? kept | 64u : (bits + 0x7fffu + (kept & 1u)) >> 16;\n"           \
  "}\n"                                                                                                          \
  "UNROLL_INLINE float unroll_from_f16(uint a) {\n"                                                              \
  "  const uint sign = (a & 0x8000u) << 16, e = (a >> 10) & 31u, m = a & 1023u;\n"                               \
  "  if (e == 0u) return unroll_number(unroll_bits(float(m) * 5.9604644775390625e-8f) | sign);\n"                \
  "  return unroll_number(sign | (e == 31u ? 255u : e + 112u) << 23 | m << 13);\n"                               \
  "}\n"                                                                                                          \
  "UNROLL_INLINE uint unroll_to_f16(float x) {\n"                                                                \
  "  const uint sign = (unroll_bits(x) >> 16) & 0x8000u, size = unroll_bits(x) & 0x7fffffffu;\n"                 \
  "  if (size > 0x7f800000u) return sign | 0x7e00u;\n"                                                           \
  "  if (size >= 0x477ff000u) return sign | 0x7c00u;\n"                                                          \
  "  if (size >= 0x38800000u) return sign | ((size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13);\n"      \
  "  return sign | (unroll_bits(unroll_number(size) + 0.5f) - 0x3f000000u);\n"                                   \
  "}\n"

// Printed in all dialects after unroll_key and unroll_high: number (high, low) of a stream by Philox4x32-10 (Salmon et
// al. 2011), as in core/support/philox.h. Four numbers share a block.
#define UNROLL_PHILOX                                                                            \
  "UNROLL_INLINE float unroll_uniform(unroll_key key, uint rng_stream, uint low, uint high) {\n"       \
  "  uint a = (low >> 2) | (high << 30), b = high >> 2, c = rng_stream, d = key.z;\n"                  \
  "  uint k = key.x, l = key.y;\n"                                                               \
  "  for (int i = 0; i < 10; ++i) {\n"                                                           \
  "    const uint p = unroll_high(0xD2511F53u, a), q = 0xD2511F53u * a;\n"                       \
  "    const uint r = unroll_high(0xCD9E8D57u, c), s = 0xCD9E8D57u * c;\n"                       \
  "    a = r ^ b ^ k, b = s, c = p ^ d ^ l, d = q;\n"                                            \
  "    k += 0x9E3779B9u, l += 0xBB67AE85u;\n"                                                    \
  "  }\n"                                                                                        \
  "  const uint lane = low & 3u, word = lane == 0u ? a : lane == 1u ? b : lane == 2u ? c : d;\n" \
  "  return float(word >> 8) * 5.9604644775390625e-8f;\n"                                        \
  "}\n"
// C++ and CUDA C++ have 64-bit integers.
#define UNROLL_DRAW                                                                                    \
  "struct unroll_key { uint x, y, z; };\n"                                                             \
  "UNROLL_INLINE unroll_key unroll_key_of(int a, int b, int c) {\n"                                    \
  "  const unroll_key key = {uint(a), uint(b), uint(c)};\n"                                            \
  "  return key;\n"                                                                                    \
  "}\n"                                                                                                \
  "UNROLL_INLINE uint unroll_high(uint a, uint b) { return uint((unsigned long long)a * b >> 32); }\n" \
  UNROLL_PHILOX                                                                                        \
  "UNROLL_INLINE float unroll_draw(unroll_key key, uint rng_stream, int step, long long n, long long e) {\n" \
  "  typedef unsigned long long Number;\n"                                                             \
  "  const Number number = Number(step) * Number(n) + Number(e);\n"                                    \
  "  return unroll_uniform(key, rng_stream, uint(number), uint(number >> 32));\n"                            \
  "}\n"

constexpr DialectWords k_dialect_words[] = {
    {.name = "C++",
     .includes = "#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <limits>\n",
     .prelude = R"(typedef unsigned int uint;
inline uint unroll_bits(float x) {
  uint bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float unroll_number(uint bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline double unroll_number64(unsigned long long bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
template <class T>
inline T unroll_round(T x, int mantissa, int lowest, T largest) {  // as core/support/formats.h
  if (!std::isfinite(x) || x == T(0)) return x;
  const int exponent = std::ilogb(x), unit = (exponent < lowest ? lowest : exponent) - mantissa;
  const T y = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::fabs(y) > largest ? std::copysign(std::numeric_limits<T>::infinity(), x) : y;
}
#define UNROLL_INLINE inline
)" UNROLL_HALVES UNROLL_DRAW,
     .math = R"(template <class T>
inline T unroll_exp(T x) { return std::exp(x); }
template <class T>
inline T unroll_tanh(T x) { return std::tanh(x); }
template <class T>
inline T unroll_sigmoid(T x) {  // 1 / (1 + e^-x), written so that neither side overflows
  const T e = std::exp(-std::fabs(x));
  return x >= T(0) ? T(1) / (T(1) + e) : e / (T(1) + e);
}
)",
     .index = "long long",
     .short_index = "int",
     .f32_bits = "unroll_number(0x%08xu)",
     .f64_bits = "unroll_number64(0x%016llxull)"},
    {.name = "CUDA C++",
     .prelude = R"(typedef unsigned int uint;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
template <class T>
__device__ inline T unroll_round(T x, int mantissa, int lowest, T largest) {
  if (!isfinite(x) || x == T(0)) return x;
  const int exponent = ilogb(x), unit = (exponent < lowest ? lowest : exponent) - mantissa;
  const T y = ldexp(rint(ldexp(x, -unit)), unit);
  return fabs(y) > largest ? copysign(T(__uint_as_float(0x7f800000u)), x) : y;
}
__device__ inline float unroll_sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return x >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
}
__device__ inline double unroll_sigmoid(double x) {
  const double e = exp(-fabs(x));
  return x >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}
__device__ inline uint unroll_bits(float x) { return __float_as_uint(x); }
__device__ inline float unroll_number(uint bits) { return __uint_as_float(bits); }
#define UNROLL_INLINE __device__ inline
)" UNROLL_HALVES UNROLL_DRAW,
     .index = "long long",
     .short_index = "uint",
     .f32_bits = "__uint_as_float(0x%08xu)",
     .f64_bits = "__longlong_as_double(0x%016llxll)"},
};

}  // namespace

std::string_view formula(Dialect dialect, Op op, DType dtype, DType to) {
  const std::uint8_t kind = k_kind[static_cast<int>(dtype)], kind_to = k_kind[static_cast<int>(to)];
  const auto column = [&](const Row& row) { return dialect == Dialect::cpp ? row.cpp : row.cuda; };
  if (op == Op::cast)
    for (const CastRow& cast : k_casts)
      if ((cast.from & kind) != 0 && (cast.to & kind_to) != 0) return column(cast.row);
  for (const Row& row : k_rows)
    if (row.op == op && (row.dtypes & kind) != 0) return column(row);
  return {};
}

const DialectWords& words(Dialect dialect) { return k_dialect_words[static_cast<int>(dialect)]; }

std::string register_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float";
    case DType::f64: return "double";
    case DType::i32: return "int";
    case DType::b8: return "bool";
    case DType::bf16:
    case DType::f16: return "uint";
  }
  return {};
}

std::string memory_type(DType dtype) {
  if (is_half(dtype)) return "uint16_t";
  return dtype == DType::b8 ? "uint8_t" : register_type(dtype);
}

}  // namespace unroll::common
