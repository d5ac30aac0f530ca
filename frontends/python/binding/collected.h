// SPDX-License-Identifier: Apache-2.0
// Support for Python's garbage collector: reports the objects that a class holds, which may refer back to it.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

namespace unroll::python {

// `Held` is a function without captures from an Owner to pointers to its objects; a pointer may be null.
template <class Owner, class Held>
PyType_Slot* collected_slots(const Held&) {
  static constexpr auto objects = [](PyObject* self) {
    return nanobind::inst_ready(self) ? Held{}(*nanobind::inst_ptr<Owner>(self)) : std::vector<nanobind::object*>();
  };
  static PyType_Slot slots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(+[](PyObject* self, visitproc visit, void* arg) {
         Py_VISIT(Py_TYPE(self));
         for (const nanobind::object* object : objects(self))
           if (object) Py_VISIT(object->ptr());
         return 0;
       })},
      {Py_tp_clear, reinterpret_cast<void*>(+[](PyObject* self) {
         for (nanobind::object* object : objects(self))
           if (object) object->reset();
         return 0;
       })},
      {0, nullptr}};
  return slots;
}

}  // namespace unroll::python
