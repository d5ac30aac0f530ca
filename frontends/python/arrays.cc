// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/arrays.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <utility>

#include "unroll/error.h"

namespace nb = nanobind;

namespace unroll::python {

namespace {

struct Row {
  DType dtype;
  nb::dlpack::dtype in_python;
};
const Row k_dtypes[] = {{DType::f32, nb::dtype<float>()},
                        {DType::f64, nb::dtype<double>()},
                        {DType::i32, nb::dtype<std::int32_t>()},
                        {DType::b8, nb::dtype<bool>()},
                        {DType::f16, {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1}},
                        {DType::bf16, {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1}}};

}  // namespace

nb::object contiguous_array(nb::handle object, const char* dtype, const std::string& what) {
  try {
    const nb::object numpy = nb::module_::import_("numpy");
    return dtype ? numpy.attr("ascontiguousarray")(object, dtype) : numpy.attr("ascontiguousarray")(object);
  } catch (const nb::python_error&) {
    throw Error(ErrorKind::type, what,
                std::string("expected an array of numbers, got ") + nb::type_name(object.type()).c_str());
  }
}

Tensor tensor_of(const Array& array, const std::string& name) {
  for (const Row& row : k_dtypes) {
    if (array.dtype() != row.in_python) continue;
    std::vector<std::int64_t> dims;
    for (std::size_t k = 0; k < array.ndim(); ++k) dims.push_back(static_cast<std::int64_t>(array.shape(k)));
    Tensor tensor(row.dtype, Shape(dims));
    if (!tensor.bytes().empty()) std::memcpy(tensor.bytes().data(), array.data(), tensor.bytes().size());
    return tensor;
  }
  throw Error(ErrorKind::type, name, "arrays are float32, float64, int32, bool, float16 or bfloat16",
              "Convert it: array.astype(numpy.float32), or numpy.int32 for tokens and lengths");
}

TensorMap tensors_of(const nb::dict& arrays) {
  TensorMap tensors;
  for (const auto& [key, value] : arrays) {
    const auto name = cast_to<std::string>(key, "arrays", "a name");
    Array array;
    // Lists and strided arrays become contiguous ones.
    if (!nb::try_cast(value, array))
      array = cast_to<Array>(contiguous_array(value, nullptr, name), name, "an array of numbers");
    tensors.insert_or_assign(name, tensor_of(array, name));
  }
  return tensors;
}

nb::object array_of(Tensor tensor) {
  auto* const owned = new Tensor(std::move(tensor));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  std::vector<std::size_t> shape;
  for (const std::int64_t size : owned->shape()) shape.push_back(static_cast<std::size_t>(size));
  for (const Row& row : k_dtypes)
    if (row.dtype == owned->dtype())
      return nb::cast(nb::ndarray<nb::numpy>(owned->bytes().data(), shape.size(), shape.data(), owner, nullptr,
                                             row.in_python));
  throw Error(ErrorKind::internal, "array_of", "there is no such dtype");
}

nb::dict arrays_of(TensorMap tensors) {
  nb::dict arrays;
  for (auto& [name, tensor] : tensors) arrays[name.c_str()] = array_of(std::move(tensor));
  return arrays;
}

}  // namespace unroll::python
