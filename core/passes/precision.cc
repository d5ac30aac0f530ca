// SPDX-License-Identifier: Apache-2.0
// Rounds the operands of matrix products. CSE merges repeated roundings, and `split` moves roundings that need no state
// out of loops.
#include <array>
#include <vector>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/support/nearest_name.h"
#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

struct Row {
  Precision precision;
  std::string_view name;
  Value (*operand)(Value);  // of a product; null: as it is
};
constexpr std::array<Row, 4> k_rows{{{Precision::f32, "f32", nullptr},
                                     {Precision::tf32, "tf32", round_tf32},
                                     {Precision::bf16, "bf16", round_bf16},
                                     {Precision::f16, "f16", round_f16}}};
const Row& row_of(Precision precision) { return k_rows[static_cast<std::size_t>(precision)]; }

}  // namespace

std::string_view precision_name(Precision precision) { return row_of(precision).name; }

Precision precision_from_name(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Row& row : k_rows) {
    if (row.name == name) return row.precision;
    known.push_back(row.name);
  }
  throw Error(ErrorKind::usage, "precision", "unknown precision '" + std::string(name) + "'",
              known_names(name, known));
}

std::shared_ptr<const Graph> set_precision(const Graph& graph, Precision precision) {
  const auto operand = row_of(precision).operand;
  if (!operand) return copy_graph(graph);
  return with_bodies(graph, [&](const Graph& g) {
    return rewrite(g, [&](const RewriteNode& at) -> std::vector<Value> {
      if (at.node.op != Op::matmul || at.operands[0].dtype() != DType::f32) return {};
      std::vector<Value> operands(at.operands.begin(), at.operands.end());
      for (std::size_t i = 0; i < 2; ++i) operands[i] = operand(operands[i]);
      return at.target.append(at.node.op, operands, at.node.attributes);
    });
  });
}

}  // namespace unroll
