// SPDX-License-Identifier: Apache-2.0
// One exception class for each kind of error, all below unroll.Error, and warnings.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace unroll::python {

// Issues a RuntimeWarning.
void warn(const std::string& text);

void add_errors(nanobind::module_& module);

}  // namespace unroll::python
