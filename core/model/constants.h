// SPDX-License-Identifier: Apache-2.0
// The graph of a trained model, with its parameters as constants, so that a backend packs them once.
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

// A copy of `open` in which every input but the first `n_inputs` is the constant of its name. Throws Error(input_file)
// in the name of `who` when one is missing or of another type.
std::shared_ptr<Graph> with_constants(const Graph& open, std::size_t n_inputs, const Constants& constants,
                                      std::string_view who);
// The same where exactly the parameters become constants, wherever they are among the inputs. An unknown constant is
// refused too.
std::shared_ptr<Graph> with_constants(const Graph& open, std::span<const ParameterSpec> parameters,
                                      const Constants& constants, std::string_view who);

}  // namespace unroll
