// SPDX-License-Identifier: Apache-2.0
// Nodes of a scan's body that move out of it: before the loop where no state leads to them, after it where they lead to
// no state. Passes say which (split.cc, split_calls.cc).
#pragma once

#include <map>
#include <vector>

#include "core/passes/rewrite.h"
#include "core/passes/scan/batch_step.h"
#include "unroll/ir/ops.h"

namespace unroll {

class BodyMoves {
 public:
  enum class Part : std::uint8_t { invariant, before, core, after };

  explicit BodyMoves(const RewriteNode& at);

  const Graph& body() const { return body_; }
  const ScanLayout& layout() const { return layout_; }
  std::size_t n() const { return body_.nodes().size(); }
  const Node& node(std::size_t i) const { return body_.nodes()[i]; }
  static std::size_t index(const ValueId& id) { return static_cast<std::size_t>(id.node); }
  bool is_state_output(std::size_t k) const { return k < static_cast<std::size_t>(layout_.n_states); }
  Part part(std::size_t i) const { return part_[i]; }
  // False for loops that nothing leaves.
  bool can_move() const;
  // Whether a node has a batched form; asked of a throw-away graph with operands of the right types.
  bool can_batch(std::size_t i) const;

  // The loop without these nodes, and what they compute for all steps at once.
  std::vector<Value> rebuild(std::vector<bool> moves);

 private:
  void classify();
  Batched outside(const ValueId& id);
  bool is_outside(const ValueId& id) const { return moves_[index(id)]; }

  const RewriteNode& at_;
  const Graph& body_;
  const ScanLayout layout_;
  std::vector<Part> part_;
  std::vector<bool> moves_;
  std::map<ValueId, Batched> outside_;
};

}  // namespace unroll
