// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/kernels/kernels.h"
#include "backends/vulkan/kernels/math.h"

namespace unroll::vulkan {

namespace {

constexpr int k_reduce_params = 5;

// Offset of the element with this number along the axes whose sizes begin at parameter `first`, strides behind them.
Term offset_of(Code& c, Term number, int first, int n_axes) {
  Term at = c.u(0);
  for (int axis = n_axes - 1; axis >= 0; --axis) {
    const Term size = parameter(c, first + axis), coordinate = axis > 0 ? number % size : number;
    at = at + coordinate * parameter(c, first + n_axes + axis);
    if (axis > 0) number = number / size;
  }
  return at;
}

Term beats(Term candidate, Term best) {
  if (candidate.kind != Kind::f32) return candidate > best;
  return (!is_nan(best)) & (is_nan(candidate) | (candidate > best));  // a NaN beats all and stays
}

}  // namespace

std::string reduction_key(Reduction reduction, DType dtype, const ReductionSizes& s) {
  return "r" + std::to_string(static_cast<int>(reduction)) + "," + std::to_string(static_cast<int>(dtype)) + "," +
         std::to_string(s.kept.size()) + "," + std::to_string(s.reduced.size());
}

Params reduction_params(const ReductionSizes& s) {
  Params p{s.outputs, s.chunks, s.length, s.total, s.first};
  for (const auto* list : {&s.kept, &s.kept_strides, &s.reduced, &s.reduced_strides})
    p.insert(p.end(), list->begin(), list->end());
  return p;
}

Words reduction_shader(Reduction reduction, DType dtype, std::size_t n_kept, std::size_t n_reduced,
                       const Setting& setting) {
  const int kept = static_cast<int>(n_kept), reduced = static_cast<int>(n_reduced);
  Code c(module_options(setting, 2));
  const Term element = c.global_index(), chunks = parameter(c, 1), length = parameter(c, 2), total = parameter(c, 3);
  c.when(element < parameter(c, 0) * chunks, [&] {
    const Term output = element / chunks, begin = (element % chunks) * length + parameter(c, 4);
    const Term end = c.select(begin + length < total, begin + length, total);
    const Term base = offset_of(c, output, k_reduce_params, kept);
    const Kind kind = kind_of(arithmetic_dtype(dtype));
    const Term lowest = c.bits(kind, kind == Kind::f32 ? k_minus_infinity : k_lowest);
    const Local best = c.local(reduction == Reduction::sum ? c.zero(kind) : lowest);
    const Local at = c.local(c.i(0));
    const auto value = [&](Term j) {
      return widened(dtype, load_element(c, 0, base + offset_of(c, j, k_reduce_params + 2 * kept, reduced), dtype));
    };
    if (reduction == Reduction::argmax)
      c.when(begin != c.u(0), [&] {  // it goes on with what an earlier dispatch found
        at.set(load_element(c, 1, element, DType::i32));
        best.set(value(c.as(Kind::u32, at.get())));
      });
    c.loop(begin, end, c.u(1), [&](Term j) {
      const Term x = value(j);
      const Term now = best.get();
      if (reduction == Reduction::sum) {
        best.set(now + x);
        return;
      }
      // The first element wins over the starting value even where it equals it.
      const Term wins = reduction == Reduction::argmax ? beats(x, now) | (j == c.u(0)) : beats(x, now);
      best.set(c.select(wins, x, now));
      at.set(c.select(wins, c.as(Kind::i32, j), at.get()));
    });
    if (reduction == Reduction::argmax) store_element(c, 1, element, at.get(), DType::i32);
    else store_element(c, 1, element, best.get(), arithmetic_dtype(dtype));
  });
  return c.finish();
}

}  // namespace unroll::vulkan
