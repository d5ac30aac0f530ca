// SPDX-License-Identifier: Apache-2.0
// A planned graph with every value as an additional output. Values in the body of a loop are stacked over its steps.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "unroll/ir/graph.h"

namespace unroll {

// "12.0" for a value of the graph, "7/3.0" for one in the body of loop 7. `inside` is "" or "7/".
std::string value_name(const std::string& inside, ValueId id);

struct ExposedGraph {
  std::shared_ptr<const Graph> graph;  // the source's outputs, then "value " + value_name
  std::set<std::string> names;         // that there are
};
inline constexpr const char* k_exposed = "value ";
// Nodes keep their numbers. Not exposed: inputs other than states of loops; constants; values saved by claimed nodes;
// and, in the body of a packed loop, values that do not lie row by row. A small value that is the same for all rows is
// exposed once per row.
ExposedGraph expose_values(const Graph& source);

}  // namespace unroll
