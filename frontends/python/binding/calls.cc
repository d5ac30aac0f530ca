// SPDX-License-Identifier: Apache-2.0
// If no overload matches a call, nanobind raises a TypeError that lists C++ types. Its functions are called through a
// pointer in each function object (PEP 590): a wrapper in between replaces this error.
#include "frontends/python/binding/calls.h"

#include <nanobind/stl/string.h>

#include <exception>
#include <string>
#include <string_view>
#include <unordered_map>

#include "frontends/python/binding/errors.h"
#include "unroll/support/error.h"

namespace nb = nanobind;

namespace unroll::python {

namespace {

struct Wrapped {
  vectorcallfunc call;
  std::string name;  // "Model.run"
};
std::unordered_map<PyObject*, Wrapped>& wrapped() {
  static std::unordered_map<PyObject*, Wrapped> functions;  // functions live as long as the module
  return functions;
}

std::string text_of(const nb::python_error& error) {
  return error.value().is_valid() ? nb::cast<std::string>(nb::str(error.value())) : std::string();
}

std::string explanation(PyObject* self, const std::string& name, PyObject* const* args, std::size_t n,
                        PyObject* names) {
  nb::list given;
  for (std::size_t i = 0; i < n; ++i) given.append(nb::handle(args[i]));
  nb::dict named;
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    named[nb::handle(PyTuple_GET_ITEM(names, i))] = nb::handle(args[n + static_cast<std::size_t>(i)]);
  return nb::cast<std::string>(
      nb::module_::import_("unroll._calls").attr("mismatch")(nb::handle(self), name, given, named));
}

PyObject* call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  const Wrapped& function = wrapped().find(self)->second;
  PyObject* const result = function.call(self, args, flags, names);
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  const std::string own = function.name.substr(function.name.rfind('.') + 1);
  try {
    nb::python_error error;
    if (!text_of(error).starts_with(own + "(): incompatible function arguments")) {
      error.restore();
      return nullptr;
    }
    constexpr std::size_t k_count = 0xffff'ffff;  // higher bits are flags of Python, and of nanobind for constructors
    const std::string text = explanation(self, function.name, args, flags & k_count, names);
    PyErr_SetString(class_of(ErrorKind::type), text.c_str());
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(class_of(ErrorKind::internal), error.what());
  }
  return nullptr;
}

void wrap(nb::handle object, const std::string& name) {
  PyTypeObject* const type = Py_TYPE(object.ptr());
  const std::string_view kind = type->tp_name;
  if (kind != "nanobind.nb_func" && kind != "nanobind.nb_method") return;
  char* const begin = reinterpret_cast<char*>(object.ptr());
  auto* const at = reinterpret_cast<vectorcallfunc*>(begin + type->tp_vectorcall_offset);
  if (*at == call) return;
  wrapped().emplace(object.ptr(), Wrapped{*at, name});
  *at = call;
}

}  // namespace

void name_wrong_arguments(nb::module_& module) {
  for (const auto& [key, value] : nb::cast<nb::dict>(module.attr("__dict__"))) {
    const auto name = nb::cast<std::string>(key);
    wrap(value, name);
    if (!nb::isinstance<nb::type_object>(value)) continue;
    const nb::object members = nb::steal<nb::object>(PyDict_New());
    PyDict_Update(members.ptr(), nb::object(value.attr("__dict__")).ptr());
    for (const auto& [member, function] : nb::cast<nb::dict>(members))
      wrap(function, name + "." + nb::cast<std::string>(member));
  }
}

}  // namespace unroll::python
