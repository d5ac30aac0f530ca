// SPDX-License-Identifier: Apache-2.0
// Calls with wrong arguments raise an unroll error that names the argument.
#pragma once

#include <nanobind/nanobind.h>

namespace unroll::python {

// Applies to all functions of the module and methods of its classes; call it last.
void name_wrong_arguments(nanobind::module_& module);

}  // namespace unroll::python
