// SPDX-License-Identifier: Apache-2.0
// Products of a planned graph with the elementwise node that alone reads their result: bias, activation, cast,
// residual. A kernel that computes the product can compute that node before the result leaves its registers or caches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/graph.h"

namespace unroll {

struct UNROLL_API ProductGroup {
  // How the epilogue reads an operand, element by element of the product [M, N].
  enum class Role : std::uint8_t {
    product,   // the product itself
    scalar,    // one element
    bias,      // [N], the same in every row
    row,       // [M], the same in every column
    residual,  // [M, N]
    other,     // of another pattern: [T, 1, N] of [T, B, N]
  };
  std::int32_t product = -1;   // node: a matmul of one matrix by another
  std::int32_t epilogue = -1;  // node: elementwise or fused; each result has M * N elements in the product's order
  std::vector<Role> roles;     // of each operand of the epilogue
  std::int64_t m = 0, n = 0;
};

// In the order of the epilogues. A product is in one group at most, and so is an epilogue: with two products it takes
// the later one, and the other is a residual.
UNROLL_API std::vector<ProductGroup> product_groups(const Graph& planned);

// "%7 matmul [64,32] + %8 fused: add, tanh; bias, residual; to bf16".
UNROLL_API std::string describe(const ProductGroup& group, const Graph& planned);

}  // namespace unroll
