// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/binding/arrays.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "unroll/support/error.h"

namespace nb = nanobind;

namespace unroll::python {

namespace {

struct DtypeRow {
  DType dtype;
  nb::dlpack::dtype in_python;
};
const DtypeRow k_dtypes[] = {{DType::f32, nb::dtype<float>()},
                        {DType::f64, nb::dtype<double>()},
                        {DType::i32, nb::dtype<std::int32_t>()},
                        {DType::b8, nb::dtype<bool>()},
                        {DType::f16, {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1}},
                        {DType::bf16, {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1}}};

// Fields of packed records may be unaligned for their elements.
bool is_aligned(const Array& array) {
  return reinterpret_cast<std::uintptr_t>(array.data()) % std::max<std::size_t>(array.itemsize(), 1) == 0;
}

// Inputs are never written to.
Tensor borrowed_tensor(const Array& array, const std::string& name) {
  for (const DtypeRow& row : k_dtypes) {
    if (array.dtype() != row.in_python) continue;
    const Type type{row.dtype, shape_of(array)};
    return Tensor::borrowed(type, {const_cast<std::byte*>(static_cast<const std::byte*>(array.data())), type.bytes()});
  }
  throw Error(ErrorKind::type, name, "arrays are float32, float64, int32, bool, float16 or bfloat16",
              "Convert it: array.astype(numpy.float32), or numpy.int32 for tokens and lengths");
}

}  // namespace

nb::module_ arguments() { return nb::module_::import_("unroll._arguments"); }

nb::object contiguous_array(nb::handle object, const char* dtype, const std::string& what) {
  return arguments().attr("converted")(object, dtype, what);
}

bool is_as_in_memory(nb::handle object) {
  if (std::string_view(Py_TYPE(object.ptr())->tp_name) == "numpy.ndarray") return true;
  return !nb::cast<bool>(arguments().attr("is_negated")(object));
}

namespace {

// Converts lists and strided arrays to contiguous ones.
Array contiguous(nb::handle value, const std::string& name) {
  Array array;
  if (!is_as_in_memory(value) || !nb::try_cast(value, array) || !is_aligned(array))
    array = cast_to<Array>(contiguous_array(value, nullptr, name), name, "an array of numbers");
  return array;
}

}  // namespace

Tensor tensor_of(nb::handle array, const std::string& name) {
  const Array lent = contiguous(array, name);
  const Tensor borrowed = borrowed_tensor(lent, name);
  return Tensor(borrowed);  // the copy owns its memory
}

TensorMap tensors_of(const nb::dict& arrays) {
  const Borrowed borrowed = borrowed_tensors(arrays);
  return borrowed.tensors;  // the copies own their memory
}

Borrowed borrowed_tensors(const nb::dict& arrays) {
  Borrowed all;
  for (const auto& [key, value] : arrays) {
    const auto name = cast_to<std::string>(key, "arrays", "a name");
    Array array = contiguous(value, name);
    all.tensors.insert_or_assign(name, borrowed_tensor(array, name));
    all.arrays.push_back(std::move(array));
  }
  return all;
}

nb::object array_of(Tensor tensor) {
  auto* const owned = new Tensor(std::move(tensor));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  std::vector<std::size_t> shape;
  for (const std::int64_t size : owned->shape()) shape.push_back(static_cast<std::size_t>(size));
  for (const DtypeRow& row : k_dtypes)
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
