// SPDX-License-Identifier: Apache-2.0
// Takes small calls out of loops. After split.cc and defer.cc a step may still have elementwise ops and concatenations
// that no state needs, or that need no state, and that fuse with no other op of the step: the operand of a product that
// has left, a comparison with the label of the step. In a loop each of them is a call in every step, with a barrier
// where several threads share the step; outside it is one call for all steps.
#include <algorithm>

#include "core/ir/ops/row_ops.h"
#include "core/passes/group/groups.h"
#include "core/passes/passes.h"
#include "core/passes/scan/body_moves.h"

namespace unroll {

namespace {

// A value of a step that enters the loop instead of being computed there costs less than a call up to this size.
constexpr std::size_t k_entering_bytes = 16 << 10;

class CallSplit : private BodyMoves {
 public:
  CallSplit(const RewriteNode& at, PassLog* log) : BodyMoves(at), at_(at), log_(log), sets_(n()) {}

  // Empty when nothing moves.
  std::vector<Value> run() {
    if (!can_move()) return {};
    find_groups();
    find_can();
    find_moves();
    while (keep_groups_whole()) {}
    const auto counts = [&](std::size_t i) { return moves_[i] && is_call(i); };
    bool any = false;
    const InLoop in_loop(log_, at_.source, at_.node);
    for (std::size_t i = 0; i < n(); ++i) {
      if (!counts(i)) continue;
      any = true;
      if (log_) log_->add("moved " + node_text(node(i)) + " out of the loop", "it is a call of its own in every step");
    }
    return any ? rebuild(moves_) : std::vector<Value>{};
  }

 private:
  bool is_call(std::size_t i) const {
    if (node(i).op != Op::concat) return is_elementwise(node(i).op) || node(i).op == Op::pad;
    // Elementwise pieces are written where they belong (views.cc).
    return std::any_of(node(i).inputs.begin(), node(i).inputs.end(),
                       [&](const ValueId& id) { return !is_elementwise(node(id).op); });
  }
  bool is_free(std::size_t i) const { return op_info(node(i).op).kind == OpKind::move && !is_call(i); }
  std::size_t bytes_of(std::size_t i) const { return node(i).outputs[0].bytes(); }

  // Ops that will be one call: elementwise ones of one shape, and those of a fused reduction, which has a reduction.
  void find_groups() {
    NodeSets rows_alike(n());
    for (std::size_t i = 0; i < n(); ++i)
      for (const ValueId& id : node(i).inputs) {
        const std::int32_t from = id.node;
        const auto fuses = [&](std::size_t k) {  // slices sink below elementwise ops (sink_slices.cc)
          return is_elementwise(node(k).op) || node(k).op == Op::slice;
        };
        if (fuses(i) && fuses(from) && (node(i).op == Op::slice || node(i).outputs[0].shape == body().type(id).shape))
          sets_.join(static_cast<int>(from), static_cast<int>(i));
        if (is_row_op(body(), node(i)) && is_row_op(body(), node(from)) &&
            leading_axes(node(i).outputs[0].shape) == leading_axes(body().type(id).shape))
          rows_alike.join(static_cast<int>(from), static_cast<int>(i));
      }
    PerNode<bool> reduces(n(), false);  // [set of rows_alike]
    const auto set_of = [&](std::size_t i) { return rows_alike.root(static_cast<int>(i)); };
    for (std::size_t i = 0; i < n(); ++i)
      if (op_info(node(i).op).kind == OpKind::reduce) reduces[set_of(i)] = true;
    with_core_.assign(n(), false);
    for (std::size_t i = 0; i < n(); ++i)
      if (part(i) == Part::core || !(is_call(i) || is_free(i)) || reduces[set_of(i)]) with_core_[group(i)] = true;
  }
  int group(std::size_t i) { return sets_.root(static_cast<int>(i)); }

  // can_: a node that may move, with everything that it needs before the loop.
  void find_can() {
    can_.assign(n(), false);
    for (std::size_t i = 0; i < n(); ++i) {
      if (node(i).op == Op::input || part(i) == Part::invariant) {
        can_[i] = part(i) != Part::core && op_info(node(i).op).kind != OpKind::body;
        continue;
      }
      can_[i] = part(i) != Part::core && !with_core_[group(i)] && can_batch(i);
      for (const ValueId& id : node(i).inputs)
        can_[i] = can_[i] && (part(i) == Part::after || can_[id.node]);
    }
  }

  // From the last node back, so that all readers of a node are known.
  void find_moves() {
    moves_.assign(n(), false);
    PerNode<bool> read(n(), false);  // in the loop
    PerNode<bool> stacked(n(), false);  // for all steps, anyway
    const auto outputs = body().outputs();
    for (std::size_t k = 0; k < outputs.size(); ++k)
      (is_state_output(k) ? read : stacked)[outputs[k].value.node] = true;
    for (std::size_t i = n(); i-- > 0;) {
      const bool moved = can_[i] && node(i).op != Op::input && part(i) != Part::invariant;
      if (moved && part(i) == Part::before)
        moves_[i] = !read[i] || (is_call(i) && bytes_of(i) <= k_entering_bytes);
      else if (moved && !read[i])
        moves_[i] = new_stack_bytes(i, stacked) <= bytes_of(i);
      for (const ValueId& id : node(i).inputs)
        (moves_[i] ? stacked : read)[id.node] = true;
    }
  }
  // Bytes of the operands that only this node needs for all steps.
  std::size_t new_stack_bytes(std::size_t i, const PerNode<bool>& stacked) const {
    std::size_t bytes = 0;
    for (const ValueId& id : node(i).inputs)
      if (part(id) >= Part::core && !stacked[id.node]) bytes += body().type(id).bytes();
    return bytes;
  }

  // Half a group outside would be a call there and one in the loop. True: something stays that was to move.
  bool keep_groups_whole() {
    PerNode<bool> stays(n(), false);  // [group]
    for (std::size_t i = 0; i < n(); ++i)
      if (is_call(i) && !moves_[i] && part(i) != Part::invariant) stays[group(i)] = true;
    bool changed = false;
    PerNode<bool> read(n(), false);
    for (std::size_t k = 0; is_state_output(k); ++k) read[body().outputs()[k].value.node] = true;
    for (std::size_t i = n(); i-- > 0;) {
      const bool left_behind = part(i) == Part::after && read[i];
      if (moves_[i] && (left_behind || (is_call(i) && stays[group(i)]))) {
        moves_[i] = false;
        changed = true;
      }
      for (const ValueId& id : node(i).inputs) read[id.node] = read[id.node] || !moves_[i];
    }
    return changed;
  }

  const RewriteNode& at_;
  PassLog* const log_;
  NodeSets sets_;
  PerNode<bool> with_core_;  // [group] a state depends on it and it on a state, or something in it cannot leave
  PerNode<bool> can_, moves_;
};

}  // namespace

std::shared_ptr<const Graph> split_calls(const Graph& graph, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) -> std::shared_ptr<const Graph> {
    const auto result = rewrite(g, [&](const RewriteNode& at) -> std::vector<Value> {
      return at.node.op == Op::scan ? CallSplit(at, log).run() : std::vector<Value>{};
    });
    return drop_dead(*result);
  }, log);
}

}  // namespace unroll
