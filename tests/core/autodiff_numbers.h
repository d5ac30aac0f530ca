// SPDX-License-Identifier: Apache-2.0
// Comparing gradients with differences on the reference interpreter, in f64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "unroll/ir/ops.h"
#include "unroll/support/tensor.h"

namespace unroll::testing {

// Builds a scalar from f64 inputs. Called once per graph.
struct LossCase {
  std::vector<Shape> shapes;
  std::function<Value(std::span<const Value>)> loss;
  double low = -1, high = 1;  // where the inputs are drawn from
};

// The largest difference between gradient and 4-point central difference
//   (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h,  error O(h^4) + O(eps/h),
// over all elements of all inputs, relative to the largest gradient (at least 1).
double first_order_error(const LossCase& example);
// The same for the gradient of sum_k <w_k, gradient_k> with fixed weights w.
double second_order_error(const LossCase& example);

}  // namespace unroll::testing
