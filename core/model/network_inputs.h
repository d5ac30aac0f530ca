// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unroll/model/network.h"

namespace unroll {

// Appends a graph input for each tensor, with its name and type.
Inputs inputs_like(Graph& graph, const TensorMap& tensors);

}  // namespace unroll
