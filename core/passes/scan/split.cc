// SPDX-License-Identifier: Apache-2.0
// Splits scan bodies: computations that need no state move before the loop, and computations that no state needs move
// after it; both run for all steps at once (Appleyard et al. 2016, arXiv 1604.01946, for any cell). Only expensive ops
// move: products, gathers, reductions. Cheap ops that depend on them move if this reduces the bytes that enter the
// loop. A large layer norm of a hoisted product stays inside, where its operands are in the cache.
#include <algorithm>
#include <map>

#include "core/autodiff/saved.h"
#include "core/passes/group/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/passes/scan/body_moves.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Part = BodyMoves::Part;

// A reduction over rows stays with its fused reduction where the values of all steps are more than caches hold; fewer
// are soon read again, and calls in every step cost more.
bool gains(const Graph& graph, const Node& node, std::int64_t steps, const Tuning& tuning) {
  const OpKind kind = op_info(node.op).kind;
  if (kind != OpKind::reduce) return kind == OpKind::matmul || kind == OpKind::index;
  if (!is_row_reduction(graph, node, tuning.fewest_rows)) return true;
  const double bytes = static_cast<double>(graph.type(node.inputs[0]).bytes()) * static_cast<double>(steps);
  return bytes <= static_cast<double>(tuning.hoisted_reduction_bytes);
}

class BodySplit : private BodyMoves {
 public:
  BodySplit(const RewriteNode& at, const Tuning& tuning, PassLog* log)
      : BodyMoves(at), at_(at), tuning_(tuning), log_(log) {}

  // Empty when nothing moves.
  std::vector<Value> run() {
    if (!can_move()) return {};
    find_movable();
    const InLoop in_loop(log_, at_.source, at_.node);
    for (std::size_t i = 0; log_ && i < n(); ++i)
      if (gains_at(i)) note(i);
    if (std::none_of(moves_.begin(), moves_.end(), [](bool m) { return m; })) return {};
    return rebuild(moves_);
  }

 private:
  bool gains_at(std::size_t i) const { return gains(body(), node(i), layout().steps, tuning_); }

  void note(std::size_t i) const {
    const std::string text = node_text(node(i)), kept = "kept " + text + " in every step";
    if (moves_[i] && part(i) == Part::after)
      log_->add("sank " + text, "no state depends on it: computed for all steps at once, after the loop");
    else if (moves_[i])
      log_->add("hoisted " + text, "it depends on no state: computed for all steps at once, before the loop");
    else if (part(i) == Part::core)
      log_->add(kept, "it depends on a state, and a state depends on it");
    else
      log_->add(kept, "it, or an op on its path out of the loop, has no form for all steps at once");
  }

  // moves_: nodes computed outside. A node before the loop needs operands that can be outside; one after it needs
  // readers that are outside as well.
  void find_movable() {
    moves_.assign(n(), false);
    find_before();
    find_after();
  }

  void find_before() {
    PerNode<bool> can(n(), false), worth(n(), false);  // worth: gains, or follows on what does
    for (std::size_t i = 0; i < n(); ++i) {
      if (node(i).op == Op::input) {
        can[i] = part(i) != Part::core;
        continue;
      }
      if (part(i) > Part::before) continue;
      can[i] = part(i) == Part::invariant ? op_info(node(i).op).kind != OpKind::body : can_batch(i);
      worth[i] = gains_at(i) || (part(i) == Part::invariant && op_info(node(i).op).kind != OpKind::source);
      for (const ValueId& id : node(i).inputs) {
        can[i] = can[i] && can[id.node];
        worth[i] = worth[i] || worth[id.node];
      }
    }
    const PerNode<bool> crosses = choose_crossing(can);
    PerNode<bool> feeds_loop(n(), false);  // something inside needs it
    for (std::size_t i = n(); i-- > 0;) {
      const bool outside = can[i] && node(i).op != Op::input;
      const bool invariant = part(i) == Part::invariant;
      moves_[i] = outside && worth[i] && (invariant || gains_at(i) || crosses[i] || !feeds_loop[i]);
      for (const ValueId& id : node(i).inputs)
        feeds_loop[id.node] = feeds_loop[id.node] || feeds_loop[i] || !can[i];
    }
    move_unread(can, worth);
  }
  // A node whose readers have all left the loop leaves too, such as a saved value that they are computed from.
  void move_unread(const PerNode<bool>& can, const PerNode<bool>& worth) {
    PerNode<bool> read(n(), false);
    for (std::size_t k = 0; is_state_output(k); ++k) read[body().outputs()[k].value.node] = true;
    for (std::size_t i = n(); i-- > 0;) {
      moves_[i] = moves_[i] || (can[i] && worth[i] && !read[i] && node(i).op != Op::input);
      for (const ValueId& id : node(i).inputs) read[id.node] = read[id.node] || !moves_[i];
    }
  }

  // The values that enter the loop when the fewest bytes do, as nodes.
  PerNode<bool> choose_crossing(const PerNode<bool>& can) const {
    std::vector<ValueId> used, available;
    for (std::size_t i = 0; i < n(); ++i)
      for (const ValueId& id : node(i).inputs)
        if (!can[i] && can[id.node]) used.push_back(id);
    for (std::size_t k = 0; is_state_output(k); ++k)
      if (can[body().outputs()[k].value.node]) used.push_back(body().outputs()[k].value);
    for (std::size_t i = 0; i < n(); ++i)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(node(i).outputs.size()); ++k)
        if (part(i) == Part::invariant || (can[i] && node(i).op == Op::input))
          available.push_back({static_cast<std::int32_t>(i), k});
    PerNode<bool> crosses(n(), false);
    const auto stays = [this](const Node& node) { return !gains(body(), node, layout().steps, tuning_); };
    for (const ValueId& id : choose_saved(body(), used, available, stays)) crosses[id.node] = true;
    return crosses;
  }

  void find_after() {
    after_.assign(n(), false);
    PerNode<bool> sinks(n(), true);  // every reader is outside after the loop
    PerNode<bool> leads(n(), false);  // some reader after it gains
    for (std::size_t i = n(); i-- > 0;) {
      const bool after = part(i) == Part::after && sinks[i] && can_batch(i);
      const bool gain = after && (gains_at(i) || leads[i]);
      for (const ValueId& id : node(i).inputs) {
        sinks[id.node] = sinks[id.node] && after;
        if (gain) leads[id.node] = true;
      }
      after_[i] = after;
    }
    // From the first gaining node on, everything up to the outputs moves with it.
    PerNode<bool> downstream(n(), false);
    for (std::size_t i = 0; i < n(); ++i) {
      downstream[i] = after_[i] && gains_at(i);
      for (const ValueId& id : node(i).inputs)
        downstream[i] = downstream[i] || (after_[i] && downstream[id.node]);
      moves_[i] = moves_[i] || downstream[i];
    }
  }

  const RewriteNode& at_;
  const Tuning& tuning_;
  PassLog* const log_;
  PerNode<bool> moves_;
  PerNode<bool> after_;
};

}  // namespace

std::shared_ptr<const Graph> split_scans(const Graph& graph, const Tuning& tuning, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) -> std::shared_ptr<const Graph> {
    const auto result = rewrite(g, [&](const RewriteNode& at) -> std::vector<Value> {
      return at.node.op == Op::scan ? BodySplit(at, tuning, log).run() : std::vector<Value>{};
    });
    return drop_dead(*result);
  }, log);
}

}  // namespace unroll
