// SPDX-License-Identifier: Apache-2.0
// The third form of loops with lengths, beside masked and packed: the scan takes `lengths` again, its step selects
// nothing, and rows stay where they are. A kernel may then stop a row after its last step. Results of ended rows are
// zero, also those that were not in the masked form and that nobody reads there (live_rows.h).
#include "core/ir/ops/scan_parts.h"
#include "core/passes/lengths/live_rows.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace unroll {

namespace {

// The scan without its mask. The mask's inputs remain, unread, for dead-code elimination.
std::vector<Value> with_lengths(const RewriteNode& at, const LengthMask& mask, const RowBody& row) {
  ScanParts parts(at.node, at.operands);
  for (std::size_t k = 0; k < at.operands.size() && !parts.lengths; ++k)
    if (mask_of(at.source, at.node.inputs[k]) == mask)
      parts.lengths = at.target.value(at.operands[k].node().inputs[1]);
  return parts.emit(row.body);
}

std::shared_ptr<const Graph> restore(const Graph& graph, const LengthMask& mask) {
  const LiveRows rows(graph, mask, RowOrder::given);
  if (!rows.any()) return nullptr;
  return rewrite(graph, [&](const RewriteNode& at) {
    const RowBody& row = rows.body(at.id);
    return row ? with_lengths(at, mask, row) : std::vector<Value>{};
  });
}

}  // namespace

std::shared_ptr<const Graph> restore_lengths(const Graph& graph, PassLog* log) {
  const auto result = for_each_mask(graph, restore);
  if (!log) return result;
  for (const Node& node : result->nodes()) {
    if (node.op != Op::scan || !scan_layout(node).has_lengths) continue;
    const InLoop in_loop(log, *result, node);
    log->add("restored lengths: each row ends at its own");
  }
  note_masked(*log, *result, RowOrder::given);
  return result;
}

}  // namespace unroll
