// SPDX-License-Identifier: Apache-2.0
// A network of layer functions as a model that runs on arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/python/binding/loaded_model.h"
#include "frontends/python/network/value.h"

namespace unroll::python {

struct BuiltNetwork {
  Inference inference;
  std::vector<ParameterSpec> parameters;
};
// Calls the function twice, with other sizes of the free axes, to find the axes of the outputs. Throws Error(usage) if
// the parameters depend on these sizes.
BuiltNetwork build_network(const Function& function, std::vector<TensorSpec> inputs);

// Returns the model of the network with these parameters. Calls the function once per input shape, with Python's lock.
LoadedModel network_model(const Function& function, Inference inference, TensorFile parameters,
                          const std::string& backend, int threads);

void add_network_model(nanobind::module_& module);

}  // namespace unroll::python
