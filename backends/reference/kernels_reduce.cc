// SPDX-License-Identifier: Apache-2.0
// Reductions: float sums in double, i32 sums wrap; an empty maximum is the lowest number (minus infinity for floats).
#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/reference/kernels.h"
#include "core/support/formats.h"
#include "unroll/support/error.h"

namespace unroll::reference {

namespace {

// Returns, for each element of x, the result element that it contributes to.
std::vector<std::int64_t> targets(const Shape& x, const Ints& axes) {
  Shape kept = x;
  for (const std::int64_t axis : axes) kept = kept.with(static_cast<int>(axis), 1);
  return offsets_of(x, broadcast_strides(kept, x));
}

template <class T>
bool beats(T candidate, T best) {
  return best == best && (candidate != candidate || candidate > best);  // NaN propagates
}

template <class T>
auto term(T x) {
  if constexpr (std::is_integral_v<T>) return std::int64_t{x};
  else if constexpr (std::is_class_v<T>) return double{to_float(x)};
  else return double{x};
}

void reduce_sum(const Call& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const auto to = targets(x.type.shape, call.node.attributes.get<Ints>("axes"));
  for_dtype(x.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Result = std::conditional_t<std::is_class_v<T>, float, T>;
    std::vector<decltype(term(zero))> sums(out.elements());
    for (std::size_t i = 0; i < to.size(); ++i) sums[to[i]] += term(x.as<const T>()[i]);
    std::transform(sums.begin(), sums.end(), out.as<Result>(), [](auto sum) { return static_cast<Result>(sum); });
  });
}

void reduce_max(const Call& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const auto to = targets(x.type.shape, call.node.attributes.get<Ints>("axes"));
  for_number(x.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Limits = std::numeric_limits<T>;
    std::fill_n(out.as<T>(), out.elements(), Limits::has_infinity ? -Limits::infinity() : Limits::lowest());
    for (std::size_t i = 0; i < to.size(); ++i) {
      T& best = out.as<T>()[to[i]];
      if (beats(x.as<const T>()[i], best)) best = x.as<const T>()[i];
    }
  });
}

void argmax(const Call& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const int axis = static_cast<int>(call.node.attributes.get<std::int64_t>("axis"));
  const Shape& shape = x.type.shape;
  const auto strides = dense_strides(shape);
  const std::int64_t stride = strides[axis];
  const auto starts = offsets_of(shape.with(axis, 1), strides);
  for_number(x.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const T* line = x.as<const T>() + starts[i];
      std::int64_t best = 0;
      for (std::int64_t j = 1; j < shape[axis]; ++j)
        if (beats(line[j * stride], line[best * stride])) best = j;
      out.as<std::int32_t>()[i] = static_cast<std::int32_t>(best);
    }
  });
}

constexpr KernelRow k_reduce_rows[] = {
    {Op::reduce_sum, reduce_sum}, {Op::reduce_max, reduce_max}, {Op::argmax, argmax}};

}  // namespace

std::span<const KernelRow> reduce_kernels() { return k_reduce_rows; }

}  // namespace unroll::reference
