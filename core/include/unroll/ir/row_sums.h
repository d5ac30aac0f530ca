// SPDX-License-Identifier: Apache-2.0
// Outputs of a fused_reduction node that are sums over rows: attribute "sums" lists them, "sum_rows" is how many rows
// each row of such an output adds up, one after the other from zero. [L, W] becomes [rows / sum_rows, W], so that the
// order of summation does not depend on who computes which rows.
#pragma once

#include <algorithm>

#include "unroll/ir/graph.h"

namespace unroll {

// 0: the output has the rows of the group.
inline std::int64_t rows_per_sum(const Node& fused_reduction, std::size_t output) {
  const Ints sums = fused_reduction.attributes.get_or<Ints>("sums", {});
  const bool is_sum = std::find(sums.begin(), sums.end(), static_cast<std::int64_t>(output)) != sums.end();
  return is_sum ? fused_reduction.attributes.get<std::int64_t>("sum_rows") : 0;
}

// The rows of [L, W] that each row of the sum adds up on an axis of their own: [rows / n, n, W].
inline Shape split_rows(const Shape& rows, std::int64_t n) {
  const std::int64_t columns = rows[rows.rank() - 1];
  return {rows.removed(rows.rank() - 1).elements() / n, n, columns};
}
// The node that adds them up, of no graph.
inline Node sum_of_split_rows(const Type& sum) {
  Node node;
  node.op = Op::reduce_sum;
  node.inputs.resize(1);
  node.attributes = {{"axes", Ints{1}}, {"keep", false}};
  node.outputs = {sum};
  return node;
}

}  // namespace unroll
