// SPDX-License-Identifier: Apache-2.0
// Loops that may leave out rows that have ended, by a vector of lengths: which loops they are, and which values are
// read in rows that are not there. Two passes use it: `pack` sorts the rows, `restore_lengths` keeps their order.
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
  // Of loops that read the mask: their step without it, or why it is needed. Empty for all other nodes.
  const RowBody& body(std::size_t node) const { return bodies_[node]; }

  // Whether a value of the node is read with its ended rows, and whether one is read without them.
  bool is_read_padded(std::size_t node) const { return padded_[node]; }
  bool is_read_packed(std::size_t node) const { return packed_[node]; }
  // Whether the node is computed from packed operands row by row, or adds up packed rows.
  bool is_by_rows(std::size_t node) const;
  bool sums_rows(std::size_t node) const;
  // Operand k of a node that is by rows has rows (the others are the same for all).
  bool has_rows(std::size_t node, std::size_t k) const;
  // Whether the node is live ? operand 1 : operand 2: operand 1 in the rows that are there. By rows, it needs no other.
  bool selects_live(std::size_t node) const;
  bool is_row_sequence(const Node& scan, const ScanLayout& l, std::size_t k) const;
  // How many leading axes are the padded rows: 2 for [T,B,...], 1 for [T*B,...], 0 for neither.
  int row_axes(const Shape& s) const;

 private:
  const Node& node(std::size_t i) const { return graph_.nodes()[i]; }
  const Shape& shape(const ValueId& id) const { return graph_.type(id).shape; }
  std::int64_t places() const { return mask_.steps * mask_.batch; }

  RowBody body_of(std::size_t i) const;
  bool lines_up(const ValueId& operand, const Shape& result) const;
  bool is_shared(const ValueId& operand, const Shape& result) const;
  bool goes_by_rows(std::size_t i) const;
  bool is_mask(const ValueId& id) const;       // in whatever shape
  bool selects_zeros(std::size_t node) const;  // by the mask, in rows that are not there, from zeros
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
  std::vector<RowBody> bodies_;          // [node]
  std::vector<std::vector<bool>> zero_;  // [node][output] zero in the rows that are not there
  // [node][output] in the rows that are not there. Empty when rows are sorted: then nothing is computed for them.
  std::vector<std::vector<EndedBounds>> bounds_;
  std::vector<bool> padded_, packed_;  // [node]
};

// Applies `change`, which returns null where nothing is to do, to one mask after the other, again after each change.
using MaskedPass = std::function<std::shared_ptr<const Graph>(const Graph&, const LengthMask&)>;
std::shared_ptr<const Graph> for_each_mask(const Graph& graph, const MaskedPass& change);

// A note for each loop that reads a mask still, with the reason.
void note_masked(PassLog& log, const Graph& graph, RowOrder order);

}  // namespace unroll
