// SPDX-License-Identifier: Apache-2.0
// A step reads and writes NumPy's memory; contiguous arrays of the right dtype are not copied.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "frontends/python/binding/loaded_model.h"
#include "frontends/python/binding/one_at_a_time.h"
#include "unroll/support/error.h"

namespace nb = nanobind;

namespace unroll::python {

namespace {

void check_ids(const Dense<const std::int32_t>& ids, std::int64_t known) {
  for (std::size_t i = 0; i < ids.size() && known > 0; ++i)
    if (const std::int32_t id = ids.data()[i]; id < 0 || id >= known)
      throw Error(ErrorKind::usage, "Stream.step",
                  "id " + std::to_string(id) + " is out of range: the model knows 0 to " + std::to_string(known - 1));
}
void check_ids(const Dense<const float>&, std::int64_t) {}

}  // namespace

OpenStream::OpenStream(StreamParts parts) : parts_(std::move(parts)) {}

nb::object OpenStream::step(const nb::object& x, const nb::object& out) {
  const OneAtATime use(*used_, "Stream");
  const auto run = [&](const auto& array, std::size_t axes_of_input) {
    std::vector<std::int64_t> dims;
    for (std::size_t k = 0; k + axes_of_input < array.ndim(); ++k)
      dims.push_back(static_cast<std::int64_t>(array.shape(k)));
    dims.push_back(outputs());
    const std::int64_t block = parts_.stream.block(), rows = parts_.stream.rows();
    if (block != rows || block > 1)  // of a graph: x [P, 1, inputs] gives y [R, 1, outputs]
      dims = {static_cast<std::int64_t>(array.size()) / (inputs() * block) * rows, 1, outputs()};
    const Shape shape(dims);
    check_ids(array, parts_.stream.ids());
    std::optional<Dense<float>> given;
    if (!out.is_none()) given = in_place<float>(out);
    if (!out.is_none() && !given) arguments().attr("check_out")(out, nb::cast(dims));
    Tensor made(DType::f32, given ? Shape{0} : shape);
    const std::span<float> y = given ? std::span(given->data(), given->size()) : made.values<float>();
    bool done = false;
    {
      const nb::gil_scoped_release release;
      done = static_cast<std::int64_t>(y.size()) == shape.elements() &&
             parts_.stream.step(std::span(array.data(), array.size()), y);
    }
    if (!done)
      throw Error(ErrorKind::shape, "Stream.step",
                  "a step reads " + std::to_string(lanes() * inputs() * block) + " values and gives " +
                      std::to_string(lanes() * outputs() * rows) +
                      (chunk() > block ? ", or " + std::to_string(chunk() / block) + " times as many" : "") + "; got " +
                      std::to_string(array.size()) + " and room for " + std::to_string(y.size()),
                  "Pass x of shape [lanes, inputs], or [chunk, lanes, inputs]; ids without the last axis");
    if (out.is_none()) return array_of(std::move(made));
    if (!given) arguments().attr("copy_out")(out, array_of(std::move(made)));
    return out;
  };
  if (parts_.input == DType::i32) return run(dense<std::int32_t>(x, "int32", "Stream.step"), 0);
  return run(dense<float>(x, "float32", "Stream.step"), 1);
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
