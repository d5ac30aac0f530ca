// SPDX-License-Identifier: Apache-2.0
// The reference result of a node in f64, and bounds for its rounding error as values of the same graph.
// docs/numerics.md derives the bounds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// 2^-24 for f32, 2^-53 for f64.
double unit_roundoff(DType dtype);
// Levels of a balanced tree of additions: ceil(log2 terms), at least 1.
double tree_levels(std::int64_t terms);

// The same computation with f64 in the place of f32, claims given up.
std::shared_ptr<Graph> widened(const Graph& graph);
// The same with every result that f32 would round, and every operand of a sum, off by about 2^-24 of itself at random:
// what rounding may do to the graph (Monte Carlo arithmetic, Parker 1997).
std::shared_ptr<Graph> with_rounding_noise(const Graph& graph, std::uint64_t seed);

// A value of a graph in f64 and the largest error that arithmetic in the source's dtype leaves in it. No bound: exact,
// or verified as a whole. The bound of a truth value is 1 if rounding may turn it over, else 0.
struct Bounded {
  Value value;
  Value bound;
};
// Appends a node of another graph, not a scan, whose operands are exact. Saved bytes of a claimed node are left out.
// `flushes`: on a backend that may flush denormal numbers (Capabilities::flushes_denormals).
std::vector<Bounded> append_bounded(Graph& target, const Node& node, std::span<const Value> operands,
                                    bool flushes = false);

// Operands that a node has as a computation: of a claimed gradient not what the forward node gave besides.
std::size_t n_operands(const Node& node);
// Its attributes without what claiming it added.
Attributes unclaimed(const Node& node);

// A claimed composite or a gradient: many steps of arithmetic whose errors no bound follows one by one.
bool is_whole(const Node& node);

}  // namespace unroll
