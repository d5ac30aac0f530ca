// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms as products with constant matrices, whose entries are computed in f64. A complex number
// is an axis of 2: the real and the imaginary part.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

struct Transform {
  std::int64_t length, parts, bins;  // elements, 1 or 2 for complex input, elements of the result
  bool inverse;
};

// [length * parts, bins * 2]
Value transform_matrix(Call& call, const Transform& t) {
  constexpr std::int64_t most = k_max_evaluated_elements;
  if (t.length > most || t.bins * 2 > most / std::max<std::int64_t>(t.length * t.parts, 1))
    call.unsupported("the transform of " + std::to_string(t.length) + " elements is too long");
  call.importer.count_elements(t.length * t.parts * t.bins * 2);
  Tensor matrix(DType::f64, {t.length * t.parts, t.bins * 2});
  const double scale = t.inverse ? 1.0 / static_cast<double>(t.length) : 1.0;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < t.length; ++i) {
    for (std::int64_t part = 0; part < t.parts; ++part) {
      for (std::int64_t bin = 0; bin < t.bins; ++bin) {
        const double turn = static_cast<double>(i * bin % t.length) / static_cast<double>(t.length);
        const double angle = (t.inverse ? 2 : -2) * std::numbers::pi * turn;
        const double real = scale * std::cos(angle), imaginary = scale * std::sin(angle);
        matrix.set(at++, part == 0 ? real : -imaginary);
        matrix.set(at++, part == 0 ? imaginary : real);
      }
    }
  }
  return constant(call.graph(), std::move(matrix));
}

// x [..., length, parts] -> [..., bins, 2]. The products are f64, because long sums in f32 would lose digits.
Value transformed(Call& call, Value x, const Transform& t) {
  Ints dims(x.shape().begin(), x.shape().end() - 2);
  const std::int64_t rows = Shape(dims).elements();
  dims.insert(dims.end(), {t.bins, 2});
  const Value flat = cast(reshape(x, {rows, t.length * t.parts}), DType::f64);
  return cast(reshape(matmul(flat, transform_matrix(call, t)), Shape(dims)), x.dtype());
}

std::int64_t parts_of(Call& call, Value x) {
  const std::int64_t parts = x.rank() < 2 ? 0 : x.shape()[x.rank() - 1];
  if ((parts != 1 && parts != 2) || !is_float(x.dtype()))
    call.refuse("the input is " + x.type().text() + "; its last axis must be 1 (real) or 2 (complex)");
  return parts;
}

std::vector<Value> fourier(Call& call) {
  const Value x = call.in(0);
  const std::int64_t parts = parts_of(call, x);
  const std::int64_t given = call.opset() < 20 ? call.integer("axis", 1) : call.has(2) ? call.integer(2) : -2;
  const int axis = call.axis(given, x.rank()), place = x.rank() - 2;
  if (axis > place) call.refuse("axis is the axis of the complex parts");
  const bool inverse = call.integer("inverse", 0) != 0, onesided = call.integer("onesided", 0) != 0;
  if (onesided && (inverse || parts == 2)) call.unsupported("onesided is supported for real input, forward, only");
  const std::int64_t size = x.shape()[axis], length = call.has(1) ? call.integer(1) : size;
  if (length < 1 || length > k_max_evaluated_elements) call.refuse("the length of the transform is invalid");
  const Value kept = size > length ? slice(x, axis, 0, length) : size < length ? pad(x, axis, 0, length - size) : x;
  const Transform t{length, parts, onesided ? length / 2 + 1 : length, inverse};
  return {moved_axis(transformed(call, moved_axis(kept, axis, place), t), place, axis)};
}

// signal [B,L,parts] -> [B,frames,bins,2]
std::vector<Value> short_time_fourier(Call& call) {
  const Value signal = call.in(0);
  if (signal.rank() != 3) call.refuse("signal is " + signal.shape().text() + ", not [batch, length, 1 or 2]");
  const std::int64_t parts = parts_of(call, signal), step = call.integer(1), size = signal.shape()[1];
  const Value window = call.in_or_none(2);
  if (!window && !call.has(3)) call.refuse("needs a window or frame_length");
  const std::int64_t length = call.has(3) ? call.integer(3) : window.shape().elements();
  if (step < 1 || length < 1 || length > size) call.refuse("frame_step or frame_length is invalid");
  if (window && window.shape() != Shape{length}) call.refuse("the window differs from frame_length");
  const bool onesided = call.integer("onesided", 1) != 0;
  if (onesided && parts == 2) call.unsupported("onesided is supported for real signals only");
  const std::int64_t frames = (size - length) / step + 1;
  if (frames > k_max_evaluated_elements / length) call.unsupported("the signal has too many frames");
  call.importer.count_elements(frames * length);
  std::vector<std::int32_t> at;
  for (std::int64_t f = 0; f < frames; ++f)
    for (std::int64_t i = 0; i < length; ++i) at.push_back(call.narrow(f * step + i));
  Value x = reshape(take(signal, 1, at), {signal.shape()[0], frames, length, parts});
  if (window) x = mul(x, reshape(window, {length, 1}));
  return {transformed(call, x, {length, parts, onesided ? length / 2 + 1 : length, false})};
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), with n - 1 for a symmetric window.
std::vector<Value> cosine_window(Call& call, double a0, double a1, double a2) {
  const std::int64_t size = call.integer(0), code = call.integer("output_datatype", k_float);
  if (size < 0 || size > k_max_evaluated_elements) call.refuse("size " + std::to_string(size) + " is invalid");
  const ElementType* type = find_element_type(code);
  if (!type) call.unsupported("elements of " + element_type_text(code));
  call.importer.count_elements(size);
  const std::int64_t period = std::max<std::int64_t>(call.integer("periodic", 1) != 0 ? size : size - 1, 1);
  Tensor window(type->dtype, {size});
  for (std::int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period);
    window.set(i, a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return {constant(call.graph(), std::move(window))};
}

constexpr OperatorRow k_fourier_rows[] = {
    {"BlackmanWindow", 17, [](Call& call) { return cosine_window(call, 0.42, 0.5, 0.08); }},
    {"DFT", 17, fourier},
    {"HammingWindow", 17, [](Call& call) { return cosine_window(call, 25.0 / 46, 21.0 / 46, 0); }},
    {"HannWindow", 17, [](Call& call) { return cosine_window(call, 0.5, 0.5, 0); }},
    {"STFT", 17, short_time_fourier},
};

}  // namespace

std::span<const OperatorRow> fourier_rows() { return k_fourier_rows; }

}  // namespace unroll::onnx
