// SPDX-License-Identifier: Apache-2.0
// Layer functions in Python: a Python function builds a network out of them, as a C++ function does (unroll/network.h).
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/python/loaded_model.h"

namespace unroll::python {

struct NetworkRequest {
  nanobind::object function;      // takes the inputs by name; returns a value, or a dict of them by name
  std::vector<TensorSpec> inputs;
  std::uint64_t seed = 0;         // of the initial parameters
  std::string backend;
  int threads = 0;
};
// The function is called once for each shape of the inputs, with Python's lock.
LoadedModel network_model(const NetworkRequest& request);

void add_layers(nanobind::module_& module);

}  // namespace unroll::python
