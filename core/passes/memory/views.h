// SPDX-License-Identifier: Apache-2.0
// Finds values that need no memory of their own, because they are views of other values.
#pragma once

#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/passes/backend.h"

namespace unroll {

struct View {
  ValueId root;            // the value that owns the memory; itself when it owns some
  std::int64_t start = 0;  // elements from the root's begin
  Ints strides;            // empty: dense
  Shape viewed = {};       // as Storage::viewed
};
// Kinds of views that a plan may have besides reshapes of dense values.
struct ViewKinds {
  bool strided = false;          // Capabilities::views
  bool windows_as_rows = false;  // Capabilities::windows_as_rows
};
// [node][output]. Reshapes of dense values are always views. With strided: strided reads whose
// readers all take strides, and parts of a concat written in place by their producers.
std::vector<std::vector<View>> find_views(const Graph& graph, const ViewKinds& kinds);

}  // namespace unroll
