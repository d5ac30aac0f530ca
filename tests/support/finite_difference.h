// SPDX-License-Identifier: Apache-2.0
// Gradients of a case by differences, in f64 on the reference.
#pragma once

#include <string>

#include "tests/support/cases.h"

namespace unroll::testing {

struct GradientCheck {
  double ratio = 0;          // worst error over allowed error
  std::string worst;         // where and by how much
  std::int64_t elements = 0;  // derivatives compared
};

// Order 1: phi(x) = sum over float outputs k of <output k, c_k> with random c_k; d phi / d x against differences.
// Order 2: the same for psi(x) = sum over inputs i of <d phi / d x_i, v_i> with random v_i.
// All elements of small inputs are checked, and a fixed number of each large one.
GradientCheck check_gradient(const Case& c, int order);

// The case's graph with the gradient of its order appended: cotangents are inputs "c1_<output>", results outputs
// "d1_<input>"; order 2 differentiates those again, with "c2_<output>" and "d2_<input>". Order 0 is the case itself.
std::shared_ptr<Graph> gradient_graph(const Case& c, DType dtype, int order);

// Appends the gradient of order `order`, as above, to a graph that has the orders below.
void append_gradient(Graph& graph, int order);

}  // namespace unroll::testing
