// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/binding/errors.h"

#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "unroll/support/error.h"

namespace nb = nanobind;

namespace unroll::python {

namespace {

struct ErrorRow {
  ErrorKind kind;
  const char* name;
  PyObject* const* also;  // the built-in exception that Python programmers expect
  const char* text;
};
const ErrorRow k_errors[] = {
    {ErrorKind::internal, "InternalError", nullptr, "A fault of unroll."},
    {ErrorKind::usage, "UsageError", &PyExc_ValueError, "A wrong argument or option."},
    {ErrorKind::shape, "ShapeError", &PyExc_ValueError, "An array of the wrong shape."},
    {ErrorKind::type, "DTypeError", &PyExc_TypeError, "An array of the wrong dtype, or no array."},
    {ErrorKind::graph, "GraphError", nullptr, "A graph that breaks a rule."},
    {ErrorKind::unsupported, "UnsupportedError", &PyExc_NotImplementedError, "Not possible for this model or backend."},
    {ErrorKind::input_file, "InputFileError", &PyExc_ValueError, "A missing, damaged or wrong file, or its contents."},
    {ErrorKind::numeric, "NumericError", &PyExc_ArithmeticError, "A loss or gradient that is not finite."},
    {ErrorKind::device, "DeviceError", &PyExc_RuntimeError, "A device that is missing or failed."},
    {ErrorKind::storage, "StorageError", &PyExc_OSError, "A file that cannot be written."},
    {ErrorKind::memory, "OutOfMemoryError", &PyExc_MemoryError, "More memory than there is."},
    {ErrorKind::peer, "PeerError", &PyExc_ConnectionError, "Another process that failed."},
    {ErrorKind::differ, "DifferError", nullptr, "Results that should be equal are not."}};

std::array<PyObject*, std::size(k_errors)> classes{};

}  // namespace

PyObject* class_of(ErrorKind kind) {
  std::size_t i = 0;
  while (k_errors[i].kind != kind) ++i;
  return classes[i];
}

namespace {

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    PyErr_SetString(class_of(error.kind()), error.what());
  }
}

}  // namespace

void warn(const std::string& text) {
  nb::module_::import_("warnings").attr("warn")(text, nb::handle(PyExc_RuntimeWarning));
}

void add_errors(nb::module_& module) {
  const nb::object base = nb::steal(PyErr_NewExceptionWithDoc(
      "unroll.Error", "What failed, where, and what to do. The base class of all errors of unroll.", nullptr, nullptr));
  module.attr("Error") = base;
  for (std::size_t i = 0; i < std::size(k_errors); ++i) {
    const ErrorRow& row = k_errors[i];
    const nb::tuple bases = row.also ? nb::make_tuple(base, nb::borrow(*row.also)) : nb::make_tuple(base);
    const std::string name = std::string("unroll.") + row.name;
    classes[i] = PyErr_NewExceptionWithDoc(name.c_str(), row.text, bases.ptr(), nullptr);
    module.attr(row.name) = nb::steal(nb::handle(classes[i]).inc_ref());
  }
  nb::register_exception_translator(translate, nullptr);
}

}  // namespace unroll::python
