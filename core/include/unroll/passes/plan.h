// SPDX-License-Identifier: Apache-2.0
// A plan: the result of the passes on a graph, and the input of a backend's compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// The location of a value while a plan runs.
struct Storage {
  enum class Place : std::uint8_t {
    none,      // not stored (unused output)
    input,     // bound input `index`
    output,    // bound output `index`, written in place
    constant,  // the tensor attribute of constant node `index`
    arena,     // bytes [offset, offset + bytes) of the plan's arena; blocks begin at multiples of Plan::alignment
  };
  Place place = Place::none;
  std::int32_t index = 0;
  std::size_t offset = 0;  // in bytes, for the arena and for views of any place
  Ints strides = {};       // in elements, for a view of a larger value; empty: dense
  Shape viewed = {};       // the shape that the strides are for, if it is not that of the value; rank 0: it is
};

// A decision of a pass: applied, or skipped with the reason. `unroll explain` prints it.
struct PassNote {
  std::string pass;   // one of pass_names()
  std::string where;  // the loop; empty: outside all loops
  std::string what;   // "hoisted matmul f32[32,1024]"
  std::string why;
  int count = 1;      // number of identical notes
  std::string layer;  // Origin::layer; empty: no layer, or several
};

// Adjacent nodes that form independent branches: no branch writes memory that another one reads or writes. Branch b is
// the nodes [bounds[b], bounds[b + 1]). A backend may run branches in parallel, each in order, or all of them in
// sequence.
struct Fork {
  std::vector<std::int32_t> bounds;
  std::size_t n_branches() const { return bounds.size() - 1; }
};

// A graph ready for execution: nodes in execution order, and a location for every value. In the plan of a scan body,
// the inputs and outputs are those of the body, bound again in each step; its arena is scratch memory of the scan node.
struct Plan {
  std::shared_ptr<const Graph> graph;
  std::vector<std::vector<Storage>> storage;    // [node][output]
  std::vector<Storage> outputs;                 // where each named output is computed; when this
                                                // is not {output, k}, the executable copies it there
  std::vector<int> donors;                      // [output] index of the input whose buffer it may overwrite, or -1
  std::size_t arena_bytes = 0;
  std::size_t alignment = 64;                   // Capabilities::alignment
  std::vector<std::shared_ptr<const Plan>> bodies;  // [node], null except for scan
  // [node], a range of the arena. A scan stores the arena of its body and copies of its state there. A claimed node
  // receives the scratch_bytes of its claim.
  std::vector<std::size_t> scratch_offset;
  std::vector<std::size_t> scratch_bytes;
  std::vector<Fork> forks;                          // ascending; empty for a backend with one lane
  WeightFormat weights = WeightFormat::f32;
  bool one_thread = false;                          // run in the caller's thread
  std::vector<PassNote> notes;                      // for the whole plan, in pass order; empty in bodies
};

}  // namespace unroll
