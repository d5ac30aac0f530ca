// SPDX-License-Identifier: Apache-2.0
// Parts of the graph printer that other printers share.
#pragma once

#include <string>
#include <string_view>

#include "unroll/ir/graph.h"

namespace unroll {

std::string quoted(std::string_view text);                  // in quotes, with escapes
std::string value_text(const Graph& graph, ValueId id);     // %3, or %3.1 of a node with several outputs
std::string attributes_text(const Node& node);              // {axis=1, keep=true}, empty when there are none

}  // namespace unroll
