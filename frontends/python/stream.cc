// SPDX-License-Identifier: Apache-2.0
// A step reads and writes NumPy's memory; nothing is copied when the arrays are contiguous and of the right dtype.
#include <nanobind/stl/optional.h>

#include "frontends/python/loaded_model.h"
#include "frontends/python/one_at_a_time.h"
#include "unroll/error.h"

namespace nb = nanobind;

namespace unroll::python {

namespace {

template <class T>
nb::ndarray<const T, nb::c_contig, nb::device::cpu> contiguous(const nb::object& x, const char* dtype) {
  nb::ndarray<const T, nb::c_contig, nb::device::cpu> array;
  if (nb::try_cast(x, array, /*convert=*/false)) return array;
  return cast_to<decltype(array)>(contiguous_array(x, dtype, "Stream.step"), "Stream.step", "an array of numbers");
}

}  // namespace

OpenStream::OpenStream(StreamParts parts) : parts_(std::move(parts)) {}

nb::object OpenStream::step(nb::object x, std::optional<nb::ndarray<float, nb::c_contig>> out) {
  const OneAtATime use(*used_, "Stream");
  const auto run = [&](const auto& array, std::size_t axes_of_input) {
    std::vector<std::int64_t> dims;
    for (std::size_t k = 0; k + axes_of_input < array.ndim(); ++k)
      dims.push_back(static_cast<std::int64_t>(array.shape(k)));
    std::int64_t rows = 1;  // T * B
    for (const std::int64_t size : dims) rows *= size;
    dims.push_back(outputs());
    Tensor made(DType::f32, out ? Shape{0} : Shape(dims));
    const std::span<float> y = out ? std::span(out->data(), out->size()) : made.values<float>();
    const bool fits = static_cast<std::int64_t>(y.size()) == rows * outputs();
    bool done = false;
    {
      const nb::gil_scoped_release release;
      done = fits && parts_.stream.step(std::span(array.data(), array.size()), y);
    }
    if (!done)
      throw Error(ErrorKind::shape, "Stream.step",
                  "a step reads " + std::to_string(lanes() * inputs()) + " values and gives " +
                      std::to_string(lanes() * outputs()) +
                      (chunk() > 1 ? ", or " + std::to_string(chunk()) + " times as many" : "") + "; got " +
                      std::to_string(array.size()) + " and room for " + std::to_string(y.size()),
                  "Pass x of shape [lanes, inputs], or [chunk, lanes, inputs]; ids without the last axis");
    return out ? nb::cast(*out) : array_of(std::move(made));
  };
  if (parts_.input == DType::i32) return run(contiguous<std::int32_t>(x, "int32"), 0);
  return run(contiguous<float>(x, "float32"), 1);
}

void OpenStream::reset(std::optional<std::int64_t> lane) {
  const OneAtATime use(*used_, "Stream");
  if (lane && (*lane < 0 || *lane >= lanes()))
    throw Error(ErrorKind::usage, "Stream.reset",
                "the stream has " + std::to_string(lanes()) + " lanes; got lane " + std::to_string(*lane));
  if (!(lane ? parts_.stream.reset(*lane) : parts_.stream.reset()))
    throw Error(ErrorKind::device, "Stream.reset", "the device failed");
}

nb::dict OpenStream::save() const {
  const OneAtATime use(*used_, "Stream");
  return arrays_of(parts_.stream.save());
}

void OpenStream::restore(const nb::dict& state) {
  const OneAtATime use(*used_, "Stream");
  parts_.stream.restore(borrowed_tensors(state).tensors);
}

OpenStream OpenStream::fork() const {
  const OneAtATime use(*used_, "Stream");
  return OpenStream({parts_.backend, parts_.stream.fork(), parts_.input});
}

}  // namespace unroll::python
