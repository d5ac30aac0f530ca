// SPDX-License-Identifier: Apache-2.0
// Memory accesses of a plan's nodes, byte by byte, and the order constraints between nodes. The plan's order is one
// valid order; the edges define all others. For backends that overlap or record work; `null` checks them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll::common {

// Memory that is bound or allocated as a unit. An output that may lie in its donor's buffer counts as that input.
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
// Byte ranges: ascending, disjoint, not empty.
struct Region {
  Space space;
  std::vector<ByteRange> ranges;
};

// Returns the strides of a value in its storage, in elements.
Ints strides_of(const Plan& plan, ValueId id);
// Returns the bytes of a value that has storage.
Region region_of(const Plan& plan, ValueId id);
// True if the regions share bytes.
bool touch(const std::vector<Region>& a, const std::vector<Region>& b);

// The memory accesses of one node. Empty for inputs, constants, and nodes whose result is a view of their operand. A
// concat does not access the parts that their producers write in place. A node that works in place (elementwise or
// fused) reads element e of an operand before it writes element e of a result there. It reads no other element.
struct Task {
  std::vector<Region> reads, writes;  // scratch is among the writes
};

// Task numbers are node numbers. One more task, n, copies the named outputs that were not computed in their bound
// buffers: it reads all before it writes any. An edge (a, b): a must finish before b begins. Tasks without a path
// between them may run in any order or concurrently. The edges are minimal: none follows from others. A scan is one
// task. In it, step t of the body must finish before step t + 1, unless the scan has no states. The hazards of the body
// order the tasks of a step.
struct Hazards {
  std::vector<Task> tasks;
  std::vector<std::pair<int, int>> edges;               // ascending
  std::vector<std::shared_ptr<const Hazards>> bodies;  // [node]; null except for scan
};
Hazards hazards_of(const Plan& plan);

}  // namespace unroll::common
