// SPDX-License-Identifier: Apache-2.0
// Running graphs on the reference interpreter and comparing gradients with differences, in f64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "unroll/ir/ops.h"
#include "unroll/support/tensor.h"

namespace unroll::testing {

// Every composite and gradient node replaced by its body, inside scans too.
std::shared_ptr<const Graph> expanded(const Graph& graph);

// Named outputs of a graph for named inputs.
TensorMap evaluate_plainly(const Graph& graph, const TensorMap& inputs);

// Builds a scalar from f64 inputs. Called once per graph.
struct Case {
  std::vector<Shape> shapes;
  std::function<Value(std::span<const Value>)> loss;
  double low = -1, high = 1;  // where the inputs are drawn from
};

// The largest difference between gradient and 4-point central difference
//   (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h,  error O(h^4) + O(eps/h),
// over all elements of all inputs, relative to the largest gradient (at least 1).
double first_order_error(const Case& example);
// The same for the gradient of sum_k <w_k, gradient_k> with fixed weights w.
double second_order_error(const Case& example);

}  // namespace unroll::testing
