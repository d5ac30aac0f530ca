// SPDX-License-Identifier: Apache-2.0
// Vectors of f32 from and to 16-bit formats: round to nearest, ties to even, as in core/support/formats.h.
#if defined(UNROLL_CPU_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_HALF_INL_H_
#undef UNROLL_CPU_HALF_INL_H_
#else
#define UNROLL_CPU_HALF_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Keeps all but the last `dropped` of 23 mantissa bits, to nearest, ties to even. Adding to the bits carries into the
// exponent, and beyond the largest number gives infinity.
template <int dropped, class D, class V>
HWY_INLINE V round_bits(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<dropped>(bits), hn::Set(du, 1));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(du, (1u << (dropped - 1)) - 1)));
  const auto kept = hn::BitCast(d, hn::And(up, hn::Set(du, ~((1u << dropped) - 1))));
  return hn::IfThenElse(hn::IsNaN(x), x, kept);
}
template <class D, class V>
HWY_INLINE V round_f16(D d, V x) {
  const V size = hn::Abs(x), half = hn::Set(d, 0.5f);
  const V small = hn::Sub(hn::Add(size, half), half);  // below 2^-14 multiples of 2^-24, the last bit of 0.5
  V y = hn::IfThenElse(hn::Lt(size, hn::Set(d, 0x1p-14f)), small, round_bits<13>(d, size));
  y = hn::IfThenElse(hn::Gt(y, hn::Set(d, 65504.0f)), hn::Inf(d), y);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
}

struct Bf16Lanes {
  template <class D>
  static HWY_INLINE auto widened(D d, hn::Vec<hn::Rebind<std::uint16_t, D>> x) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), x)));
  }
  template <class D, class V>
  static HWY_INLINE auto narrowed(D, V x) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto number = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
    const auto kept = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, number);
    return hn::TruncateTo(hn::Rebind<std::uint16_t, D>(), hn::ShiftRight<16>(kept));
  }
};
struct F16Lanes {
  template <class D>
  static HWY_INLINE auto widened(D d, hn::Vec<hn::Rebind<std::uint16_t, D>> x) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), x));
  }
  template <class D, class V>
  static HWY_INLINE auto narrowed([[maybe_unused]] D d, V x) {
#if HWY_TARGET != HWY_AVX3 && HWY_TARGET != HWY_AVX2 && HWY_TARGET != HWY_AVX3_ZEN4
    x = round_f16(d, x);  // these instruction sets round to nearest in hardware
#endif
    return hn::BitCast(hn::Rebind<std::uint16_t, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), x));
  }
};

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
