// SPDX-License-Identifier: Apache-2.0
// Rounding to 16-bit formats, against what the bits of the formats say.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/support/formats.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

using namespace unroll;

namespace {

// The positive numbers of binary16 in order: `bits` from 0 to 0x7bff.
double f16_of(std::uint32_t bits) {
  const std::uint32_t exponent = bits >> 10, mantissa = bits & 0x3ff;
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0 + mantissa, static_cast<int>(exponent) - 25);
}

Tensor on_cpu(Value (*round)(Value), const Tensor& x) {
  const auto backend = make_backend("cpu");
  Graph g;
  g.output("y", round(g.input("x", x.type())));
  return evaluate(g, *backend, {{"x", x}}).at("y");
}

}  // namespace

TEST_CASE("every number of binary16 stays, and between two the nearer one is taken, halfway the even one") {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = f16_of(bits), high = f16_of(bits + 1), half = (low + high) / 2;
    CAPTURE(low);
    REQUIRE(round_to(k_f16, low) == low);
    REQUIRE(round_to(k_f16, half) == (bits % 2 == 0 ? low : high));
    REQUIRE(round_to(k_f16, std::nextafter(half, 0)) == low);
    REQUIRE(round_to(k_f16, -std::nextafter(half, 1e9)) == -high);
  }
  CHECK(round_to(k_f16, 65519.0) == 65504);
  CHECK(std::isinf(round_to(k_f16, 65520.0)));
  CHECK(std::signbit(round_to(k_f16, -1e-30)));
}

TEST_CASE("bfloat16 and tf32 keep the high bits of a float, rounded") {
  for (std::uint32_t high = 0; high < 0x7f80; ++high) {
    const float low = std::bit_cast<float>(high << 16), half = std::bit_cast<float>((high << 16) | 0x8000);
    const float next = std::bit_cast<float>((high + 1) << 16);  // infinity at the end
    REQUIRE(round_to(k_bf16, low) == low);
    REQUIRE(round_to(k_bf16, half) == (high % 2 == 0 ? low : next));
    REQUIRE(round_to(k_bf16, -std::nextafter(half, 0.0F)) == -low);
  }
  CHECK(round_to(k_tf32, 1 + 0x1p-11F) == 1);
  CHECK(round_to(k_tf32, 1 + 0x3p-11F) == 1 + 0x1p-9F);
}

TEST_CASE("the cpu backend rounds all exponents and patterns of mantissas as the definition does") {
  Tensor x(DType::f32, {512 * 512});
  const auto values = x.values<float>();
  for (std::uint32_t i = 0; i < 512 * 512; ++i)  // sign and exponent, then the ends and middles of mantissas
    values[i] = std::bit_cast<float>(((i >> 9) << 23) | ((i & 0x1f0) << 14) | ((i & 8) << 13) | ((i & 4) << 10) |
                                     ((i & 2) << 11) | (i & 1));
  const std::pair<Value (*)(Value), Format> formats[] = {
      {round_bf16, k_bf16}, {round_f16, k_f16}, {round_tf32, k_tf32}};
  for (const auto& [round, format] : formats) {
    const Tensor y = on_cpu(round, x);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const float given = values[static_cast<std::size_t>(i)], wanted = round_to(format, given);
      const float got = y.values<float>()[static_cast<std::size_t>(i)];
      if (std::isnan(given)) REQUIRE(std::isnan(got));
      else REQUIRE(std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(wanted));
    }
  }
}
