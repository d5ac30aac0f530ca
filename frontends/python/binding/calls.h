// SPDX-License-Identifier: Apache-2.0
// Calls with wrong arguments raise an error of unroll that names the argument.
#pragma once

#include <nanobind/nanobind.h>

namespace unroll::python {

// For all functions of the module and methods of its classes, once all are there.
void name_wrong_arguments(nanobind::module_& module);

}  // namespace unroll::python
