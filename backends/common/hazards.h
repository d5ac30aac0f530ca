// SPDX-License-Identifier: Apache-2.0
// What the nodes of a plan touch, byte by byte, and which of them must run before which. The order in a plan is one
// that is right; these edges say which others are. For backends that overlap or record work; `null` checks them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll::common {

// Memory that is bound or allocated as one. An output that may lie in its donor's buffer counts as that input.
struct Space {
  Storage::Place place;  // input, output, constant or arena
  std::int32_t index;    // of the input, output or constant node; 0 for the arena
  friend auto operator<=>(const Space&, const Space&) = default;
};
Space space_of(const Plan& plan, const Storage& storage);

struct ByteRange {
  std::size_t begin, end;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};
// Ascending, apart, not empty.
struct Region {
  Space space;
  std::vector<ByteRange> ranges;
};

// Strides of a value where it lies, in elements.
Ints strides_of(const Plan& plan, ValueId id);
// The bytes of a value that has a place.
Region region_of(const Plan& plan, ValueId id);
// Whether they have bytes in common.
bool touch(const std::vector<Region>& a, const std::vector<Region>& b);

// What one node touches. Empty for inputs, constants, and nodes whose result is only another reading of their operand.
// Parts of a concat that their producers write in place are not touched by it. A node that works in place (elementwise
// or fused) reads element e of an operand before it writes element e of a result there, and no other.
struct Task {
  std::vector<Region> reads, writes;  // scratch is among the writes
};

// Tasks are numbered as nodes; task n, one more, copies the named outputs that were not computed where they are bound:
// it reads all before it writes any. An edge (a, b): a must be finished before b begins. Tasks that no path of edges
// joins may run in any order or at once. Edges are the fewest that say so: none follows from others.
// A scan is one task; within it, step t of its body must be finished before step t + 1, unless it has no states, and
// the tasks of a step are ordered by the hazards of its body.
struct Hazards {
  std::vector<Task> tasks;
  std::vector<std::pair<int, int>> edges;               // ascending
  std::vector<std::shared_ptr<const Hazards>> bodies;  // [node], null but for scan
};
Hazards hazards_of(const Plan& plan);

}  // namespace unroll::common
