// SPDX-License-Identifier: Apache-2.0
// One exception class for each kind of error, all below unroll.Error.
#pragma once

#include <nanobind/nanobind.h>

namespace unroll::python {

void add_errors(nanobind::module_& module);

}  // namespace unroll::python
