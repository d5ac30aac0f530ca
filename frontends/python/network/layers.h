// SPDX-License-Identifier: Apache-2.0
// Layer functions in Python: a Python function builds a network out of them, as a C++ function does
// (unroll/model/network.h).
#pragma once

#include <nanobind/nanobind.h>

namespace unroll::python {

void add_layers(nanobind::module_& module);

}  // namespace unroll::python
