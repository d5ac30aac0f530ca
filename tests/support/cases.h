// SPDX-License-Identifier: Apache-2.0
// What a conformance case is: a graph for a dtype, the numbers its inputs may take, and how closely two runs of it
// must agree. One list (tests/conformance/cases_*.cc) serves values, gradients and support.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "unroll/ir/graph.h"
#include "unroll/support/tensor.h"

namespace unroll::testing {

// Numbers an input may take. All are exact in f32, so that every dtype sees the same ones.
struct Range {
  double low = -2, high = 2;
  // Above 0: only multiples of `grid` plus `phase`, which keeps values away from a kink, or apart from an input with
  // another phase, by a known distance.
  double grid = 0, phase = 0;
  bool distinct = false;  // no two values closer than (high - low) / elements: extrema without ties
  bool special = false;   // zeros of both signs, infinities, NaN, the ends of the number range
};

struct Case {
  std::string name;
  std::function<void(Graph&, DType)> build;
  std::map<std::string, Range> ranges = {};  // by input name; others take the default
  Agreement agreement = {};
  bool differentiable = true;   // every float input is differentiated with respect to
  bool constant_output = false;  // an output may be one number, or zeros: nothing to mistrust
  double step = 0;               // of finite differences; 0: the usual one
};

// The cases of all families, in order. Names are unique.
const std::vector<Case>& all_cases();
// Those that UNROLL_CASES=n asks for: every n-th, and the first case of each op. All without it.
const std::vector<Case>& chosen_cases();

// A built case: its graph, checked to have at least one output.
std::shared_ptr<Graph> build_case(const Case& c, DType dtype);
// Numbers for every input of the graph, the same for every dtype and in every run.
TensorMap make_inputs(const Graph& graph, const std::map<std::string, Range>& ranges, std::string_view seed);

// The ops of a graph and of all its bodies.
std::vector<Op> ops_of(const Graph& graph);

}  // namespace unroll::testing
