// SPDX-License-Identifier: Apache-2.0
// Graphs of trained models with parameters as constants, so that a backend packs them once.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "unroll/ir/graph.h"
#include "unroll/model/model.h"

namespace unroll {

using Constants = std::map<std::string, std::shared_ptr<const Tensor>>;
Constants constants_of(const TensorMap& tensors);

// Returns a copy of `open` with the inputs from number `n_inputs` on replaced by the constants of their names. Throws
// Error(input_file) from `who` when one is missing or has another type.
std::shared_ptr<Graph> with_constants(const Graph& open, std::size_t n_inputs, const Constants& constants,
                                      std::string_view who);
// The same for exactly the given parameters, at any position among the inputs. Also throws on an unknown constant.
std::shared_ptr<Graph> with_constants(const Graph& open, std::span<const ParameterSpec> parameters,
                                      const Constants& constants, std::string_view who);

}  // namespace unroll
