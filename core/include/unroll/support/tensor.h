// SPDX-License-Identifier: Apache-2.0
// A dense row-major array in host memory that owns or borrows its bytes.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/types.h"

namespace unroll {

// The allocator of host memory. The host program may replace it before it creates the first tensor. `allocate` returns
// memory aligned to 64 bytes, or null on failure.
struct Allocator {
  void* (*allocate)(std::size_t bytes);
  void (*release)(void* memory, std::size_t bytes);
};
UNROLL_API Allocator set_allocator(Allocator allocator);  // returns the previous one

// A block of bytes, aligned to 64, from the current allocator. Throws Error(memory).
class UNROLL_API Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::size_t n_bytes);  // zero-initialized
  // Wraps the caller's memory, which must outlive this object. It is not released. A copy owns its memory.
  static Bytes borrowed(std::span<std::byte> memory);
  Bytes(const Bytes& other);
  Bytes(Bytes&& other) noexcept;
  Bytes& operator=(Bytes other) noexcept;
  ~Bytes();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  void (*release_)(void*, std::size_t) = nullptr;
};

// Elements of 16 bits. Tensor::at and Tensor::set convert them.
struct Bf16 {
  std::uint16_t bits = 0;
};
struct F16 {
  std::uint16_t bits = 0;
};

template <class T>
struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::b8; };
template <> struct DTypeOf<Bf16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<F16> { static constexpr DType value = DType::f16; };

class UNROLL_API Tensor {
 public:
  Tensor() : Tensor(Type{}) {}
  explicit Tensor(Type type);  // zero-initialized
  Tensor(DType dtype, Shape shape) : Tensor(Type{dtype, shape}) {}

  template <class T>
  static Tensor from(Shape shape, const std::vector<T>& values);  // throws Error(shape) on a wrong count
  // Wraps the caller's memory, which must have the bytes of the type, be aligned for its elements and outlive the
  // tensor. Throws Error(shape) on another size. A copy owns its memory.
  static Tensor borrowed(Type type, std::span<std::byte> memory);
  static Tensor scalar(DType dtype, double value);
  static Tensor filled(Type type, double value);

  const Type& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  std::int64_t elements() const { return type_.shape.elements(); }

  std::span<std::byte> bytes() { return {bytes_.data(), bytes_.size()}; }
  std::span<const std::byte> bytes() const { return {bytes_.data(), bytes_.size()}; }

  // Typed access. Throws Error(type) when T does not match the dtype.
  template <class T> std::span<T> values();
  template <class T> std::span<const T> values() const;
  // The element at {i, j, ...}: one index per dimension. Throws Error(shape) on an index out of range, and on another
  // number of them.
  using Index = std::initializer_list<std::int64_t>;
  template <class T> T& at(Index index) { return values<T>()[position(index)]; }
  template <class T> const T& at(Index index) const { return values<T>()[position(index)]; }
  double at(Index index) const { return at(static_cast<std::int64_t>(position(index))); }
  void set(Index index, double value) { set(static_cast<std::int64_t>(position(index)), value); }
  // The same by the position in row-major order, which is not checked.
  double at(std::int64_t index) const;            // converted to double
  void set(std::int64_t index, double value);     // converted to the dtype
  Tensor cast(DType dtype) const;
  bool all_finite() const;
  // The type and the elements with four significant digits, one row per line. Above 1,000 elements each axis shows its
  // first and last three.
  std::string text() const;

 private:
  std::size_t position(Index index) const;  // in row-major order
  void require(DType wanted) const;
  Type type_;
  Bytes bytes_;
};

UNROLL_API std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);  // Tensor::text

using TensorMap = std::map<std::string, Tensor>;

template <class T>
std::span<T> Tensor::values() {
  require(DTypeOf<T>::value);
  return {reinterpret_cast<T*>(bytes_.data()), static_cast<std::size_t>(elements())};
}
template <class T>
std::span<const T> Tensor::values() const {
  require(DTypeOf<T>::value);
  return {reinterpret_cast<const T*>(bytes_.data()), static_cast<std::size_t>(elements())};
}

}  // namespace unroll
