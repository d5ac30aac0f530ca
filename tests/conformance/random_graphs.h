// SPDX-License-Identifier: Apache-2.0
// Valid random graphs: 1 to 40 growth steps over nearly all ops, about a third with scans, some with empty shapes,
// shared values and several outputs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tests/support/cases.h"

namespace unroll::testing {

// The same seed gives the same graph for every dtype, but for the dtype.
struct RandomGraph {
  std::shared_ptr<Graph> graph;
  std::map<std::string, Range> ranges;  // for make_inputs
};
RandomGraph random_graph(std::uint64_t seed, DType dtype);

// One or two scans with random cells as bodies: states of several shapes, sequences, weights, lengths, reset, reverse,
// nested products, row reductions, slices and concats, and some use of the results. A smaller most_steps, of growth of
// a body, makes a smaller graph that begins alike: for finding the least case that fails.
RandomGraph random_scans(std::uint64_t seed, DType dtype, std::int64_t most_steps = 1000);

// A number that depends on all bits of both.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

}  // namespace unroll::testing
