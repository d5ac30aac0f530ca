// SPDX-License-Identifier: Apache-2.0
// Checks that a set of tensors belongs to a model, with one error text for every reader of weights.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "unroll/support/types.h"

namespace unroll {

using NamedTypes = std::map<std::string, Type>;

// Throws Error(input_file) in the name of `source` (a file, a class) unless the names and types are the same. The text
// names up to five parameters of each kind:
//   [last.safetensors] encoder.l0.weight_ih_l0: expected f32[512,128], got f32[512,64]; missing: head.bias f32[3]
void check_parameters(const NamedTypes& expected, const NamedTypes& got, std::string_view source);

}  // namespace unroll
