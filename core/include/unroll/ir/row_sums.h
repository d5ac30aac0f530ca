// SPDX-License-Identifier: Apache-2.0
// Row sums in fused_reduction nodes. Attribute "sums" lists the outputs that are sums over rows. Attribute "sum_rows"
// is the number of rows that each output row adds up, in order, from zero. [L, W] becomes [rows / sum_rows, W], so the
// order of summation does not depend on the assignment of rows to workers.
#pragma once

#include <algorithm>

#include "unroll/ir/graph.h"

namespace unroll {

// Returns the rows per sum of an output, or 0 if the output has the rows of its inputs.
inline std::int64_t rows_per_sum(const Node& fused_reduction, std::size_t output) {
  const Ints sums = fused_reduction.attributes.get_or<Ints>("sums", {});
  const bool is_sum = std::find(sums.begin(), sums.end(), static_cast<std::int64_t>(output)) != sums.end();
  return is_sum ? fused_reduction.attributes.get<std::int64_t>("sum_rows") : 0;
}

// Splits the rows of [L, W] into sums on a separate axis: [rows / n, n, W].
inline Shape split_rows(const Shape& rows, std::int64_t n) {
  const std::int64_t columns = rows[rows.rank() - 1];
  return {rows.removed(rows.rank() - 1).elements() / n, n, columns};
}
// Returns a reduce_sum node over that axis. The node belongs to no graph.
inline Node sum_of_split_rows(const Type& sum) {
  Node node;
  node.op = Op::reduce_sum;
  node.inputs.resize(1);
  node.attributes = {{"axes", Ints{1}}, {"keep", false}};
  node.outputs = {sum};
  return node;
}

}  // namespace unroll
