// SPDX-License-Identifier: Apache-2.0
// Nodes of a scan's body that move out of it: before the loop where no state leads to them, after it where they lead to
// no state. Passes say which (split.cc, split_calls.cc).
#pragma once

#include <map>
#include <vector>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/rewrite.h"
#include "core/passes/scan/batch_step.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/per_node.h"

namespace unroll {

class BodyMoves {
 public:
  enum class Part : std::uint8_t { invariant, before, core, after };

  explicit BodyMoves(const RewriteNode& at);

  const Graph& body() const { return body_; }
  const ScanLayout& layout() const { return layout_; }
  std::size_t n() const { return body_.nodes().size(); }
  const Node& node(std::size_t i) const { return body_.nodes()[i]; }
  const Node& node(const ValueId& id) const { return body_.node(id.node); }
  bool is_state_output(std::size_t k) const { return is_state(layout_, k); }
  Part part(std::size_t i) const { return part_[i]; }
  Part part(const ValueId& id) const { return part_[id.node]; }
  // False for loops that nothing leaves.
  bool can_move() const;
  // True if the node has a form for all steps at once.
  bool can_batch(std::size_t i) const;

  // Emits the loop without these nodes, and the nodes for all steps at once. Returns the results of the scan.
  std::vector<Value> rebuild(const PerNode<bool>& moves);

 private:
  struct Crossing {
    std::vector<ValueId> entering, stacked;
  };
  void classify();
  Crossing find_crossing() const;
  std::vector<Value> emit_loop(const std::vector<ValueId>& entering, const std::vector<ValueId>& results);
  Batched outside(const ValueId& id);
  bool is_outside(const ValueId& id) const { return moves_[id.node]; }

  const RewriteNode& at_;
  const Graph& body_;
  const ScanLayout layout_;
  PerNode<Part> part_;
  PerNode<bool> moves_;
  std::map<ValueId, Batched> outside_;
};

}  // namespace unroll
