// SPDX-License-Identifier: Apache-2.0
// The graph of several steps of a stream, with the parameters as constants.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/model/constants.h"
#include "unroll/model/stream.h"

namespace unroll {

// Returns the graph of a call, with inputs "x", the states and one for each of `ends`, and outputs "y" and the states.
// A model that builds steps has no graph of initial states, which are zeros. Throws Error(input_file) from `who` on
// missing, unknown or mistyped parameters, and Error(shape) when y is not [T,B,O].
BlockStream step_graph(const StreamModel& model, std::int64_t steps, std::int64_t lanes, const Constants& weights,
                       std::string_view who);

}  // namespace unroll
