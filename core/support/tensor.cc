// SPDX-License-Identifier: Apache-2.0
#include "unroll/support/tensor.h"

#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <type_traits>
#include <utility>

#include "core/support/formats.h"
#include "core/support/text/exact_text.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_alignment = 64;

// Pages from the system are zero at first use. A large arena is therefore not written before its use, and compilation
// time does not depend on its size.
constexpr std::size_t k_mapped_bytes = std::size_t{32} << 20;
bool is_mapped(std::size_t bytes) { return bytes >= k_mapped_bytes; }

void* default_allocate(std::size_t bytes) {
  if (is_mapped(bytes)) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
  }
  const std::size_t rounded = (bytes + k_alignment - 1) & ~(k_alignment - 1);
  return rounded < bytes ? nullptr : std::aligned_alloc(k_alignment, rounded);
}
void default_release(void* memory, std::size_t bytes) {
  if (is_mapped(bytes)) munmap(memory, bytes);
  else std::free(memory);
}

Allocator& allocator() {
  static Allocator current{default_allocate, default_release};
  return current;
}

// Calls f with a zero value of the C++ type of dtype.
template <class F>
auto visit(DType dtype, F f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::i32: return f(std::int32_t{});
    case DType::b8: return f(std::uint8_t{});
    case DType::bf16: return f(Bf16{});
    case DType::f16: return f(F16{});
  }
  throw Error(ErrorKind::internal, "Tensor", "unknown dtype");
}

template <class T>
T converted(double value) {
  if constexpr (std::is_same_v<T, std::uint8_t>) return value != 0;
  else if constexpr (std::is_same_v<T, Bf16>) return to_bf16(value);
  else if constexpr (std::is_same_v<T, F16>) return to_f16(value);
  else return static_cast<T>(value);
}
template <class T>
double as_double(T value) {
  if constexpr (std::is_class_v<T>) return to_float(value);
  else return static_cast<double>(value);
}

}  // namespace

Allocator set_allocator(Allocator next) { return std::exchange(allocator(), next); }

Bytes::Bytes(std::size_t n_bytes) : size_(n_bytes), release_(allocator().release) {
  if (n_bytes == 0) return;
  const Allocator from = allocator();
  data_ = static_cast<std::byte*>(from.allocate(n_bytes));
  if (!data_) throw Error(ErrorKind::memory, "Bytes", "cannot allocate " + std::to_string(n_bytes) + " bytes");
  if (from.allocate != default_allocate || !is_mapped(n_bytes)) std::memset(data_, 0, n_bytes);
}
Bytes Bytes::borrowed(std::span<std::byte> memory) {
  Bytes bytes;
  bytes.data_ = memory.data();
  bytes.size_ = memory.size();
  return bytes;
}
Bytes::Bytes(const Bytes& other) : Bytes(other.size_) {
  if (size_ > 0) std::memcpy(data_, other.data_, size_);
}
Bytes::Bytes(Bytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), release_(other.release_) {}
Bytes& Bytes::operator=(Bytes other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(release_, other.release_);
  return *this;
}
Bytes::~Bytes() {
  if (data_ && release_) release_(data_, size_);
}

Tensor::Tensor(Type type) : type_(type), bytes_(type.bytes()) {}

void Tensor::require(DType wanted) const {
  if (type_.dtype != wanted)
    throw Error(ErrorKind::type, "Tensor", "values are " + std::string(dtype_name(type_.dtype)) + ", asked for " +
                                               std::string(dtype_name(wanted)));
}

template <class T>
Tensor Tensor::from(Shape shape, const std::vector<T>& values) {
  Tensor t(DTypeOf<T>::value, shape);
  if (std::ssize(values) != shape.elements())
    throw Error(
        ErrorKind::shape, "Tensor::from",
        shape.text() + " needs " + std::to_string(shape.elements()) + " values, got " + std::to_string(values.size()));
  if (!values.empty()) std::memcpy(t.bytes_.data(), values.data(), values.size() * sizeof(T));
  return t;
}
template UNROLL_API Tensor Tensor::from(Shape, const std::vector<float>&);
template UNROLL_API Tensor Tensor::from(Shape, const std::vector<double>&);
template UNROLL_API Tensor Tensor::from(Shape, const std::vector<std::int32_t>&);
template UNROLL_API Tensor Tensor::from(Shape, const std::vector<std::uint8_t>&);

Tensor Tensor::borrowed(Type type, std::span<std::byte> memory) {
  if (memory.size() != type.bytes())
    throw Error(ErrorKind::shape, "Tensor::borrowed", type.text() + " needs " + std::to_string(type.bytes()) +
                                                          " bytes, got " + std::to_string(memory.size()));
  Tensor t;
  t.type_ = type;
  t.bytes_ = Bytes::borrowed(memory);
  return t;
}

Tensor Tensor::scalar(DType dtype, double value) { return filled({dtype, Shape{}}, value); }

Tensor Tensor::filled(Type type, double value) {
  Tensor t(type);
  for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, value);
  return t;
}

double Tensor::at(std::int64_t index) const {
  return visit(dtype(), [&](auto zero) {
    return as_double(reinterpret_cast<const decltype(zero)*>(bytes_.data())[index]);
  });
}

void Tensor::set(std::int64_t index, double value) {
  visit(dtype(), [&](auto zero) {
    reinterpret_cast<decltype(zero)*>(bytes_.data())[index] = converted<decltype(zero)>(value);
  });
}

Tensor Tensor::cast(DType dtype) const {
  Tensor t(dtype, shape());
  for (std::int64_t i = 0; i < elements(); ++i) t.set(i, at(i));
  return t;
}

std::size_t Tensor::position(Index index) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::shape, "Tensor", what + " of a tensor " + shape().text());
  };
  if (std::ssize(index) != shape().rank()) refuse(std::to_string(index.size()) + " indices");
  std::int64_t at = 0;
  int axis = 0;
  for (const std::int64_t i : index) {
    const std::int64_t size = shape()[axis++];
    if (i < 0 || i >= size) refuse("index " + std::to_string(i) + " of axis " + std::to_string(axis - 1));
    at = at * size + i;
  }
  return at;
}

namespace {

// Elements of a tensor as nested rows, as NumPy prints them.
class ElementText {
 public:
  explicit ElementText(const Tensor& tensor) : tensor_(tensor), is_long_(tensor.elements() > k_most) {}

  // The part that begins at element `first` of axis `axis`.
  std::string of(int axis, std::int64_t first) const {
    const Shape& shape = tensor_.shape();
    if (axis == shape.rank()) return short_text(tensor_.at(first), k_digits);
    std::int64_t stride = 1;
    for (int inner = axis + 1; inner < shape.rank(); ++inner) stride *= shape[inner];
    const std::string between = axis + 1 == shape.rank() ? ", " : ",\n" + std::string(axis + 1, ' ');
    std::string text;
    for (std::int64_t i = 0; i < shape[axis]; ++i) {
      if (i > 0) text += between;
      if (is_long_ && i == k_edge && shape[axis] > 2 * k_edge) {
        text += "..." + between;
        i = shape[axis] - k_edge;
      }
      text += of(axis + 1, first + i * stride);
    }
    return "[" + text + "]";
  }

 private:
  static constexpr std::int64_t k_most = 1000, k_edge = 3;
  static constexpr int k_digits = 4;
  const Tensor& tensor_;
  bool is_long_;
};

}  // namespace

std::string Tensor::text() const { return type_.text() + "\n" + ElementText(*this).of(0, 0); }

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << tensor.text(); }

bool Tensor::all_finite() const {
  for (std::int64_t i = 0; i < elements(); ++i)
    if (!std::isfinite(at(i))) return false;
  return true;
}

}  // namespace unroll
