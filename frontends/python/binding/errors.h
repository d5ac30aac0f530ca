// SPDX-License-Identifier: Apache-2.0
// One exception class for each kind of error, all derived from unroll.Error, and warnings.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "unroll/support/error.h"

namespace unroll::python {

// Issues a RuntimeWarning.
void warn(const std::string& text);

// Returns the class of a kind, for C.
PyObject* class_of(ErrorKind kind);

void add_errors(nanobind::module_& module);

}  // namespace unroll::python
