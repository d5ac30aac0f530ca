// SPDX-License-Identifier: Apache-2.0
// A planned graph with every value as an additional output. Values in the body of a loop are stacked over its steps.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "unroll/ir/graph.h"

namespace unroll {

// Of a value of the graph "12.0", of one in the body of loop 7 "7/3.0". `inside` is "" or "7/".
std::string value_name(const std::string& inside, ValueId id);

struct ExposedGraph {
  std::shared_ptr<const Graph> graph;  // the source's outputs, then "value " + value_name
  std::set<std::string> names;         // that there are
};
inline constexpr const char* k_exposed = "value ";
// Nodes keep their numbers. Not among the values: inputs, which are given, but for states of loops; constants; what a
// claimed node saves; and in the body of a packed loop what does not lie row by row. Of that what is the same for all
// rows is there once for each row, if it is small.
ExposedGraph expose_values(const Graph& source);

}  // namespace unroll
