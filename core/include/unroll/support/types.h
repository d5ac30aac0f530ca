// SPDX-License-Identifier: Apache-2.0
// Dtypes and static shapes. Every value of a graph has one Type; nothing is inferred at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "unroll/support/export.h"

namespace unroll {

// b8 is a byte that is 0 or 1. Indices, labels, lengths and random keys are i32. bf16 (bfloat16) and f16 (binary16) are
// storage types. Casts, moves, selections, scans (carried and stacked values), matmul and reduce_sum accept them; the
// latter two return f32. All other arithmetic needs a cast.
enum class DType : std::uint8_t { f32, f64, i32, b8, bf16, f16 };
inline constexpr int k_n_dtypes = 6;

UNROLL_API std::size_t dtype_bytes(DType dtype);
UNROLL_API std::string_view dtype_name(DType dtype);  // "f32"
UNROLL_API DType dtype_from_name(std::string_view name);  // throws Error(type)
inline bool is_float(DType d) { return d == DType::f32 || d == DType::f64; }  // has float arithmetic
inline bool is_half(DType d) { return d == DType::bf16 || d == DType::f16; }   // stores floats in 16 bits
// Returns the dtype of results computed from values of dtype d, and of their gradients.
inline DType arithmetic_dtype(DType d) { return is_half(d) ? DType::f32 : d; }

// Dimensions, outermost first (row-major). Rank 0 is a scalar; a dimension may be 0.
class UNROLL_API Shape {
 public:
  static constexpr int k_max_rank = 6;
  static constexpr std::int64_t k_max_dimension = std::int64_t{1} << 40;  // sums of several dimensions cannot overflow

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  // Throws Error(shape) on a dimension outside [0, k_max_dimension], a rank above k_max_rank, or more than 2^62
  // elements.
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  std::int64_t elements() const { return elements_; }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }

  Shape with(int axis, std::int64_t size) const;    // the same shape with one dimension replaced
  Shape inserted(int axis, std::int64_t size) const;
  Shape removed(int axis) const;
  std::string text() const;  // "[100,32,256]"

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.dims_ == b.dims_;
  }

 private:
  std::array<std::int64_t, k_max_rank> dims_{};  // unused dimensions stay 0
  int rank_ = 0;
  std::int64_t elements_ = 1;
};

// NumPy broadcasting of two shapes. Throws Error(shape), which names `who`, when they are incompatible.
UNROLL_API Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view who);

struct UNROLL_API Type {
  DType dtype = DType::f32;
  Shape shape;

  std::size_t bytes() const;  // throws Error(memory) on overflow
  std::string text() const;   // "f32[100,32,256]"
  friend bool operator==(const Type&, const Type&) = default;
};

// Storage format of constants that are the second operand of matmuls. Results and arithmetic are f32, with one
// exception: on processors with byte dot products (VNNI), int8 rounds the other operand to 16 bits.
//   bf16  rounded to nearest, 8 bits of precision
//   int8  w[n,k] = scale[n] * q[n,k] with scale[n] = max over k of |w[n,k]| / 127: one scale per output
// Matmuls with few weights keep f32; quantization saves nothing there.
enum class WeightFormat : std::uint8_t { f32, bf16, int8 };

// The number formats of the f32 values of a graph, by role. Rounding is to nearest, ties to even. A backend without the
// dtype runs the same graph with the values rounded and stored in f32.
//   role                                                          f32   tf32  bf16  f16
//   operands of matmuls (weights, activations, gradients)         f32   tf32  bf16  f16
//   values that loops with matmuls read and stack step by step:
//     activations, saved activations, their gradients             f32   f32   bf16  f16
//   states that a step reads only as operands of matmuls          f32   f32   bf16  f16
//   accumulation, and all other arithmetic                        f32   f32   f32   f32
//   parameters (master weights), slots, other states, losses,
//     gradients of parameters, named outputs                      f32   f32   f32   f32
// The range of f16 is 6e-8 to 65504, so training scales the loss (LossScaleOptions).
enum class Precision : std::uint8_t { f32, tf32, bf16, f16 };

}  // namespace unroll
