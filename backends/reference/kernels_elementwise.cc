// SPDX-License-Identifier: Apache-2.0
// Elementwise ops with NumPy broadcasting, each as the plain formula in the dtype of its operands.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/reference/kernels.h"
#include "core/support/formats.h"
#include "unroll/support/error.h"

namespace unroll::reference {

namespace {

// i32 arithmetic wraps, so it uses unsigned numbers.
template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, std::int32_t>, std::uint32_t, T>;

// Reads one operand at the elements of the result.
template <class T>
class Operand {
 public:
  Operand(const View& view, const Shape& result) : data_(view.as<const T>()) {
    if (view.type.shape != result) offsets_ = offsets_of(result, broadcast_strides(view.type.shape, result));
  }
  T operator[](std::int64_t i) const { return data_[offsets_.empty() ? i : offsets_[i]]; }

 private:
  const T* data_;
  std::vector<std::int64_t> offsets_;
};

template <class T, class Result, class F>
void map1(const Call& call, F f) {
  const View& out = call.outputs[0];
  const Operand<T> a(call.inputs[0], out.type.shape);
  for (std::int64_t i = 0; i < out.elements(); ++i) out.as<Result>()[i] = f(a[i]);
}

template <class T, class Result, class F>
void map2(const Call& call, F f) {
  const View& out = call.outputs[0];
  const Operand<T> a(call.inputs[0], out.type.shape), b(call.inputs[1], out.type.shape);
  for (std::int64_t i = 0; i < out.elements(); ++i) out.as<Result>()[i] = f(a[i], b[i]);
}

[[noreturn]] void refuse(const Call& call) {
  throw Error(ErrorKind::internal, op_info(call.node.op).name,
              "no kernel for dtype " + std::string(dtype_name(call.inputs[0].type.dtype)));
}

template <class F>
void float_map(const Call& call, F f) {
  switch (call.inputs[0].type.dtype) {
    case DType::f32: return map1<float, float>(call, f);
    case DType::f64: return map1<double, double>(call, f);
    default: refuse(call);
  }
}

template <class F>
void number_map(const Call& call, F f) {
  if (call.inputs[0].type.dtype == DType::i32) return map1<std::int32_t, std::int32_t>(call, f);
  float_map(call, f);
}

template <class F>
void number_map2(const Call& call, F f) {
  switch (call.inputs[0].type.dtype) {
    case DType::f32: return map2<float, float>(call, f);
    case DType::f64: return map2<double, double>(call, f);
    case DType::i32: return map2<std::int32_t, std::int32_t>(call, f);
    default: refuse(call);
  }
}

template <class F>
void compare(const Call& call, F f) {
  for_number(call.inputs[0].type.dtype, [&](auto zero) { map2<decltype(zero), std::uint8_t>(call, f); });
}

void neg(const Call& c) {
  number_map(c, [](auto x) { return static_cast<decltype(x)>(-static_cast<Arithmetic<decltype(x)>>(x)); });
}
void abs(const Call& c) {
  number_map(c, [](auto x) {
    using T = decltype(x);
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    else return x < 0 ? static_cast<T>(-static_cast<Arithmetic<T>>(x)) : x;
  });
}
void sign(const Call& c) {
  number_map(c, [](auto x) {
    using T = decltype(x);
    if (x != x) return x;
    return static_cast<T>((x > T{0}) - (x < T{0}));
  });
}
void exp(const Call& c) { float_map(c, [](auto x) { return std::exp(x); }); }
void expm1(const Call& c) { float_map(c, [](auto x) { return std::expm1(x); }); }
void log(const Call& c) { float_map(c, [](auto x) { return std::log(x); }); }
void log1p(const Call& c) { float_map(c, [](auto x) { return std::log1p(x); }); }
void sqrt(const Call& c) { float_map(c, [](auto x) { return std::sqrt(x); }); }
void tanh(const Call& c) { float_map(c, [](auto x) { return std::tanh(x); }); }
void sigmoid(const Call& c) {
  // 1 / (1 + e^-x), written so that neither side overflows
  float_map(c, [](auto x) {
    using T = decltype(x);
    const T e = std::exp(-std::fabs(x));
    return x >= T{0} ? T{1} / (T{1} + e) : e / (T{1} + e);
  });
}
void erf(const Call& c) { float_map(c, [](auto x) { return std::erf(x); }); }
void is_finite(const Call& c) {
  for_number(c.inputs[0].type.dtype, [&](auto zero) {
    map1<decltype(zero), std::uint8_t>(
        c, [](auto x) { return static_cast<std::uint8_t>(std::isfinite(static_cast<double>(x))); });
  });
}
void round_bf16(const Call& c) { float_map(c, [](auto x) { return round_to(k_bf16, x); }); }
void round_f16(const Call& c) { float_map(c, [](auto x) { return round_to(k_f16, x); }); }
void round_tf32(const Call& c) { float_map(c, [](auto x) { return round_to(k_tf32, x); }); }
void stop_gradient(const Call& c) {
  for_dtype(c.inputs[0].type.dtype,
            [&](auto zero) { map1<decltype(zero), decltype(zero)>(c, [](auto x) { return x; }); });
}

template <class T>
T wrapped(Arithmetic<T> x) {
  return static_cast<T>(x);
}
void add(const Call& c) {
  number_map2(c, [](auto a, auto b) {
    using T = decltype(a);
    return wrapped<T>(static_cast<Arithmetic<T>>(a) + static_cast<Arithmetic<T>>(b));
  });
}
void sub(const Call& c) {
  number_map2(c, [](auto a, auto b) {
    using T = decltype(a);
    return wrapped<T>(static_cast<Arithmetic<T>>(a) - static_cast<Arithmetic<T>>(b));
  });
}
void mul(const Call& c) {
  number_map2(c, [](auto a, auto b) {
    using T = decltype(a);
    return wrapped<T>(static_cast<Arithmetic<T>>(a) * static_cast<Arithmetic<T>>(b));
  });
}
void div(const Call& c) {
  number_map2(c, [](auto a, auto b) {
    using T = decltype(a);
    if constexpr (std::is_floating_point_v<T>) return a / b;
    // truncated; by zero gives 0; the smallest number over -1 wraps
    else return b == 0 ? T{0} : static_cast<T>(static_cast<std::int64_t>(a) / b);
  });
}
void maximum(const Call& c) {
  number_map2(c, [](auto a, auto b) { return a != a ? a : b != b ? b : a > b ? a : b; });
}
void minimum(const Call& c) {
  number_map2(c, [](auto a, auto b) { return a != a ? a : b != b ? b : a < b ? a : b; });
}

std::uint8_t truth(bool x) { return static_cast<std::uint8_t>(x); }
void less(const Call& c) { compare(c, [](auto a, auto b) { return truth(a < b); }); }
void less_equal(const Call& c) { compare(c, [](auto a, auto b) { return truth(a <= b); }); }
void equal(const Call& c) { compare(c, [](auto a, auto b) { return truth(a == b); }); }
void logical_and(const Call& c) {
  map2<std::uint8_t, std::uint8_t>(c, [](auto a, auto b) { return truth(a && b); });
}
void logical_or(const Call& c) {
  map2<std::uint8_t, std::uint8_t>(c, [](auto a, auto b) { return truth(a || b); });
}
void logical_not(const Call& c) {
  map1<std::uint8_t, std::uint8_t>(c, [](auto a) { return truth(!a); });
}

void select(const Call& call) {
  const View& out = call.outputs[0];
  const Operand<std::uint8_t> condition(call.inputs[0], out.type.shape);
  for_dtype(out.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Operand<T> a(call.inputs[1], out.type.shape), b(call.inputs[2], out.type.shape);
    for (std::int64_t i = 0; i < out.elements(); ++i) out.as<T>()[i] = condition[i] ? a[i] : b[i];
  });
}

// Float to i32 truncates, saturates and maps NaN to 0; every value except 0 is true. Conversion to 16 bits rounds once,
// from the operand's dtype.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_class_v<From>) {
    return converted<To>(to_float(x));
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return to_bf16(static_cast<double>(x));
  } else if constexpr (std::is_same_v<To, F16>) {
    return to_f16(static_cast<double>(x));
  } else if constexpr (std::is_same_v<To, std::uint8_t>) {
    return x != From{0};
  } else if constexpr (std::is_same_v<To, std::int32_t> && std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<std::int32_t>;
    const double wide = static_cast<double>(x);
    if (wide != wide) return 0;
    return static_cast<To>(std::clamp(wide, double{Limits::min()}, double{Limits::max()}));
  } else {
    return static_cast<To>(x);
  }
}

void cast(const Call& call) {
  for_dtype(call.inputs[0].type.dtype, [&](auto from) {
    for_dtype(call.outputs[0].type.dtype, [&](auto to) {
      map1<decltype(from), decltype(to)>(call, [](auto x) { return converted<decltype(to)>(x); });
    });
  });
}

constexpr KernelRow k_elementwise_rows[] = {
    {Op::neg, neg},
    {Op::abs, abs},
    {Op::sign, sign},
    {Op::exp, exp},
    {Op::expm1, expm1},
    {Op::log, log},
    {Op::log1p, log1p},
    {Op::sqrt, sqrt},
    {Op::tanh, tanh},
    {Op::sigmoid, sigmoid},
    {Op::erf, erf},
    {Op::round_bf16, round_bf16},
    {Op::round_f16, round_f16},
    {Op::round_tf32, round_tf32},
    {Op::stop_gradient, stop_gradient},
    {Op::is_finite, is_finite},
    {Op::add, add},
    {Op::sub, sub},
    {Op::mul, mul},
    {Op::div, div},
    {Op::maximum, maximum},
    {Op::minimum, minimum},
    {Op::less, less},
    {Op::less_equal, less_equal},
    {Op::equal, equal},
    {Op::logical_and, logical_and},
    {Op::logical_or, logical_or},
    {Op::logical_not, logical_not},
    {Op::select, select},
    {Op::cast, cast},
};

}  // namespace

std::span<const KernelRow> elementwise_kernels() { return k_elementwise_rows; }

}  // namespace unroll::reference
