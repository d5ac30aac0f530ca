// SPDX-License-Identifier: Apache-2.0
// Layer functions in Python: a Python function builds a network from them, like a C++ function
// (unroll/model/network.h).
#pragma once

#include <nanobind/nanobind.h>

namespace unroll::python {

void add_layers(nanobind::module_& module);
void add_value(nanobind::module_& module);
void add_arithmetic(nanobind::module_& module);
void add_convolutions(nanobind::module_& module);

}  // namespace unroll::python
