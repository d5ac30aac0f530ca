// SPDX-License-Identifier: Apache-2.0
// Dimensions of inputs whose sizes a file leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frontends/onnx/model.h"

namespace unroll::onnx {

using FreeSizes = std::map<std::string, std::int64_t>;  // by name

struct FreeDimension {
  std::string name;   // the symbol, or "INPUT.AXIS"
  std::string group;  // the symbol, or "axis AXIS": dimensions that are likely to have the same size
};
// Each once, in the order of the inputs.
std::vector<FreeDimension> free_dimensions(const Model& model);
// The first group has the first of these sizes, and so on; more groups have ever larger ones.
FreeSizes sizes_in_order(const Model& model, std::vector<std::int64_t> sizes);
// Types of the inputs. Dimensions that `sizes` does not name have size 1. Throws Error(unsupported) for an input
// without a type.
std::map<std::string, Type> input_types(const Model& model, const FreeSizes& sizes);
// The free dimension that only one size of a parameter fits, such as the features of the first layer; empty if all
// sizes fit, or none. `sizes` and `known` are as for import_graph.
FreeSizes sizes_of_parameters(const Model& model, const FreeSizes& sizes, const TensorMap& known = {});

}  // namespace unroll::onnx
