// SPDX-License-Identifier: Apache-2.0
// Networks of layer functions as graphs of any length, which need no Python.
#pragma once

#include <cstdint>

#include "unroll/tasks/inference.h"

namespace unroll::python {

// Metadata of the task "graph" for a network with one input, whose axis T is time; other letters are 1. An input
// NAME_lengths is T. Throws Error(unsupported) for other inputs, and if a loop in Python depends on T.
Metadata graph_metadata_of(const Inference& inference, std::int64_t delay);

}  // namespace unroll::python
