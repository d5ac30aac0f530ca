// SPDX-License-Identifier: Apache-2.0
#include "unroll/support/types.h"

#include <algorithm>

#include "core/support/checked_size.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DTypeRow, k_n_dtypes> k_dtypes{
    {{"f32", 4}, {"f64", 8}, {"i32", 4}, {"b8", 1}, {"bf16", 2}, {"f16", 2}}};

}  // namespace

std::size_t dtype_bytes(DType dtype) { return k_dtypes[static_cast<std::size_t>(dtype)].bytes; }
std::string_view dtype_name(DType dtype) { return k_dtypes[static_cast<std::size_t>(dtype)].name; }

DType dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < k_dtypes.size(); ++i)
    if (k_dtypes[i].name == name) return static_cast<DType>(i);
  throw Error(ErrorKind::type, "dtype", "unknown dtype '" + std::string(name) + "'",
              "known: f32, f64, i32, b8, bf16, f16");
}

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > k_max_rank)
    throw Error(ErrorKind::shape, "Shape", "rank must be at most 6, got " + std::to_string(dims.size()));
  rank_ = static_cast<int>(dims.size());
  CheckedSize elements = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      throw Error(ErrorKind::shape, "Shape", "a dimension must not be negative, got " + std::to_string(dims[i]));
    if (dims[i] > k_max_dimension)
      throw Error(ErrorKind::shape, "Shape", "a dimension must be at most 2^40, got " + std::to_string(dims[i]));
    dims_[i] = dims[i];
    elements *= static_cast<std::uint64_t>(dims[i]);
  }
  const auto n = elements.get();
  if (!n || *n > (std::uint64_t{1} << 62))
    throw Error(ErrorKind::shape, "Shape", "more than 2^62 elements in " + text());
  elements_ = static_cast<std::int64_t>(*n);
}

Shape Shape::with(int axis, std::int64_t size) const {
  auto dims = dims_;
  dims[axis] = size;
  return Shape(std::span<const std::int64_t>(dims.data(), rank_));
}

Shape Shape::inserted(int axis, std::int64_t size) const {
  if (rank_ == k_max_rank) throw Error(ErrorKind::shape, "Shape", "rank must be at most 6, got 7");
  auto dims = dims_;
  std::copy_backward(dims.begin() + axis, dims.begin() + rank_, dims.begin() + rank_ + 1);
  dims[axis] = size;
  return Shape(std::span<const std::int64_t>(dims.data(), rank_ + 1));
}

Shape Shape::removed(int axis) const {
  auto dims = dims_;
  std::copy(dims.begin() + axis + 1, dims.begin() + rank_, dims.begin() + axis);
  return Shape(std::span<const std::int64_t>(dims.data(), rank_ - 1));
}

std::string Shape::text() const {
  std::string s = "[";
  for (int i = 0; i < rank_; ++i) s += (i ? "," : "") + std::to_string((*this)[i]);
  return s + "]";
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view who) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, Shape::k_max_rank> dims{};
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const std::int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1)
      throw Error(ErrorKind::shape, who, "shapes must broadcast; got " + a.text() + " and " + b.text());
    dims[i] = da == 1 ? db : da;
  }
  return Shape(std::span<const std::int64_t>(dims.data(), rank));
}

std::size_t Type::bytes() const {
  CheckedSize n = static_cast<std::uint64_t>(shape.elements());
  n *= dtype_bytes(dtype);
  if (const auto bytes = n.get()) return *bytes;
  throw Error(ErrorKind::memory, "Type", "size overflows: " + text());
}

std::string Type::text() const { return std::string(dtype_name(dtype)) + shape.text(); }

}  // namespace unroll
