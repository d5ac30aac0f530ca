// SPDX-License-Identifier: Apache-2.0
// Conversion between NumPy arrays and tensors. A returned array owns its tensor, so outputs are not copied.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <string>

#include "unroll/support/error.h"
#include "unroll/support/tensor.h"

namespace unroll::python {

using Array = nanobind::ndarray<nanobind::device::cpu, nanobind::c_contig, nanobind::ro>;

// Throws Error(type), which names `what` and the object's type, if it cannot become a T.
template <class T>
T cast_to(nanobind::handle object, const std::string& what, const std::string& expected) {
  T result;
  if (nanobind::try_cast(object, result)) return result;
  throw Error(ErrorKind::type, what,
              "expected " + expected + ", got " + nanobind::type_name(object.type()).c_str());
}
// The functions of unroll/_arguments.py.
nanobind::module_ arguments();
// Returns the object as a contiguous array of the dtype, or of its present dtype; copied only if necessary. Throws
// Python's DTypeError for anything but arrays of numbers, and if a number would change.
nanobind::object contiguous_array(nanobind::handle object, const char* dtype, const std::string& what);
// True if the memory of an array or tensor holds its values: that of a negated PyTorch tensor has the opposite sign.
bool is_as_in_memory(nanobind::handle object);

template <class T>
using Dense = nanobind::ndarray<T, nanobind::c_contig, nanobind::device::cpu>;
// Returns nullopt for another dtype, strides, a wrong alignment, or a read-only array.
template <class T>
std::optional<Dense<T>> in_place(nanobind::handle object) {
  Dense<T> array;
  if (!is_as_in_memory(object) || !nanobind::try_cast(object, array, /*convert=*/false)) return std::nullopt;
  if (reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T) != 0) return std::nullopt;
  return array;
}
// In place if possible, else through contiguous_array().
template <class T>
Dense<const T> dense(nanobind::handle object, const char* dtype, const std::string& what) {
  if (auto array = in_place<const T>(object)) return *array;
  return cast_to<Dense<const T>>(contiguous_array(object, dtype, what), what, "an array of numbers");
}

// Copies. Throws Error(type), with the name of the array, for an unsupported dtype.
Tensor tensor_of(nanobind::handle array, const std::string& name);
TensorMap tensors_of(const nanobind::dict& arrays);
// Tensors in the memory of the arrays, which they keep alive. Lists and strided arrays are copied into arrays first.
struct Borrowed {
  TensorMap tensors;
  std::vector<Array> arrays;
};
Borrowed borrowed_tensors(const nanobind::dict& arrays);
template <class Array>
Shape shape_of(const Array& array) {
  std::vector<std::int64_t> dims;
  for (std::size_t k = 0; k < array.ndim(); ++k) dims.push_back(static_cast<std::int64_t>(array.shape(k)));
  return Shape(dims);
}
nanobind::object array_of(Tensor tensor);
nanobind::dict arrays_of(TensorMap tensors);

}  // namespace unroll::python
