// SPDX-License-Identifier: Apache-2.0
// Finds the loops that may leave out rows that have ended, by a vector of lengths, and the values that are read in
// missing rows. Two passes use it: `pack` sorts the rows, `restore_lengths` keeps their order.
//
// "Padded" is [T,B,...], or [T*B,...] when flattened. "Packed" holds the rows t < lengths[b] only, in whatever form.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/passes/group/row_body.h"
#include "core/passes/lengths/ended_bounds.h"
#include "core/passes/log.h"
#include "unroll/ir/graph.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/per_node.h"

namespace unroll {

// live[t,b] = t < lengths[b].
struct LengthMask {
  ValueId lengths;
  std::int64_t steps = 0, batch = 0;
  friend bool operator==(const LengthMask&, const LengthMask&) = default;
};
std::optional<LengthMask> mask_of(const Graph& graph, const ValueId& id);

class LiveRows {
 public:
  LiveRows(const Graph& graph, const LengthMask& mask, RowOrder order);

  bool any() const;  // there is a loop that may leave out rows
  // The step of a loop without the mask that it reads, or why it needs the mask. Empty for all other nodes.
  const RowBody& body(std::size_t node) const { return bodies_[node]; }

  // True if a reader wants the ended rows of a value of the node, or wants it without them.
  bool is_read_padded(std::size_t node) const { return padded_[node]; }
  bool is_read_packed(std::size_t node) const { return packed_[node]; }
  // True if the node is computed from packed operands row by row, or adds up packed rows.
  bool is_packed(std::size_t node) const;
  bool sums_rows(std::size_t node) const;
  // True if operand k of such a node has rows; the others are the same for all rows.
  bool operand_has_rows(std::size_t node, std::size_t k) const;
  // True if the node is live ? operand 1 : operand 2. Its packed form is that of operand 1.
  bool selects_by_mask(std::size_t node) const;
  bool is_row_sequence(const Node& scan, const ScanLayout& l, std::size_t k) const;
  // The number of leading axes that are the padded rows: 2 for [T,B,...], 1 for [T*B,...], 0 for neither.
  int row_axes(const Shape& s) const;

 private:
  const Node& node(std::size_t i) const { return graph_.nodes()[i]; }
  const Shape& shape(const ValueId& id) const { return graph_.type(id).shape; }
  std::int64_t places() const { return mask_.steps * mask_.batch; }

  RowBody body_of(std::size_t i) const;
  bool has_same_rows(const ValueId& operand, const Shape& result) const;
  bool is_same_in_all_rows(const ValueId& operand, const Shape& result) const;
  bool is_rowwise(std::size_t i) const;
  bool is_mask(const ValueId& id) const;       // in whatever shape
  bool is_redundant_mask(std::size_t node) const;  // by the mask, in rows that are not there, from zeros
  void find_zeros();
  bool is_zero(const ValueId& id) const;
  void find_bounds();
  bool keeps_finite(std::size_t node);
  bool find_reads();
  bool want_padded(const ValueId& id);
  bool want_operands(std::size_t i);

  const Graph& graph_;
  const LengthMask mask_;
  const RowOrder order_;
  PerNode<RowBody> bodies_;
  PerValue<bool> zero_;  // zero in missing rows
  PerValue<EndedBounds> bounds_;  // in missing rows; empty if rows are sorted: then nothing is computed for them
  PerNode<bool> padded_, packed_;
};

// Applies `change`, which returns null where nothing is to do, to one mask after the other, again after each change.
using MaskedPass = std::function<std::shared_ptr<const Graph>(const Graph&, const LengthMask&)>;
std::shared_ptr<const Graph> for_each_mask(const Graph& graph, const MaskedPass& change);

// A note for each loop that reads a mask still, with the reason.
void note_masked(PassLog& log, const Graph& graph, RowOrder order);

}  // namespace unroll
