// SPDX-License-Identifier: Apache-2.0
// Splits scan bodies: computations that need no state move before the loop, and computations that no state needs move
// after it; both run for all steps at once (Appleyard et al. 2016, arXiv 1604.01946, for any cell). Only expensive ops
// move: products, gathers, reductions. Cheap ops that depend on them move if this reduces the bytes that enter the
// loop. A large layer norm of a hoisted product stays inside, where its operands are in the cache.
#include <algorithm>
#include <map>

#include "core/autodiff/saved.h"
#include "core/passes/batch_step.h"
#include "core/passes/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

enum class Part : std::uint8_t { invariant, before, core, after };

// A reduction over rows stays with its row group where the values of all steps are more than caches hold; fewer are
// soon read again, and calls in every step cost more.
bool gains(const Graph& graph, const Node& node, std::int64_t steps, const Tuning& tuning) {
  const OpKind kind = op_info(node.op).kind;
  if (kind != OpKind::reduce) return kind == OpKind::matmul || kind == OpKind::index;
  if (!is_row_reduction(graph, node, tuning.fewest_rows)) return true;
  const double bytes = static_cast<double>(graph.type(node.inputs[0]).bytes()) * static_cast<double>(steps);
  return bytes <= static_cast<double>(tuning.hoisted_reduction_bytes);
}

class BodySplit {
 public:
  BodySplit(const RewriteNode& at, const Tuning& tuning, PassLog* log)
      : at_(at), body_(*at.node.body), layout_(scan_layout(at.node)), tuning_(tuning), log_(log) {}

  // Empty when nothing moves.
  std::vector<Value> run() {
    if (layout_.has_lengths || layout_.has_reset || layout_.packed || layout_.steps == 0) return {};
    if (at_.node.attributes.get_or<bool>("segments", false))
      return {};  // what leaves would be as large as without them
    classify();
    find_movable();
    const InLoop in_loop(log_, at_.source, at_.node);
    for (std::size_t i = 0; log_ && i < n(); ++i)
      if (gains_at(i)) note(i);
    if (std::none_of(moves_.begin(), moves_.end(), [](bool m) { return m; })) return {};
    return rebuild();
  }

 private:
  std::size_t n() const { return body_.nodes().size(); }
  const Node& node(std::size_t i) const { return body_.nodes()[i]; }
  static std::size_t index(const ValueId& id) { return static_cast<std::size_t>(id.node); }
  bool is_state_output(std::size_t k) const { return k < static_cast<std::size_t>(layout_.n_states); }

  void classify() {
    part_.assign(n(), Part::invariant);
    for (std::size_t i = 0; i < n(); ++i) {
      if (node(i).op == Op::input) {  // inputs come first: states, sequences, constants
        const auto s = static_cast<std::size_t>(layout_.n_states), q = static_cast<std::size_t>(layout_.n_sequences);
        part_[i] = i < s ? Part::core : i < s + q ? Part::before : Part::invariant;
        continue;
      }
      for (const ValueId& id : node(i).inputs) part_[i] = std::max(part_[i], part_[index(id)]);
    }
    std::vector<bool> feeds_state(n(), false);
    for (std::size_t k = 0; is_state_output(k); ++k) feeds_state[index(body_.outputs()[k].value)] = true;
    for (std::size_t i = n(); i-- > 0;)
      if (feeds_state[i])
        for (const ValueId& id : node(i).inputs) feeds_state[index(id)] = true;
    for (std::size_t i = 0; i < n(); ++i)
      if (part_[i] == Part::core && !feeds_state[i] && node(i).op != Op::input) part_[i] = Part::after;
  }

  // Whether a node has a batched form; asked of a throw-away graph with operands of the right types.
  bool can_batch(std::size_t i) const {
    Graph scratch;
    std::vector<Batched> operands;
    for (const ValueId& id : node(i).inputs) {
      const bool stacked = part_[index(id)] != Part::invariant;
      Type type = body_.type(id);
      if (stacked && type.shape.rank() == Shape::k_max_rank) return false;
      if (stacked) type.shape = type.shape.inserted(0, layout_.steps);
      operands.push_back({scratch.input("x" + std::to_string(operands.size()), type), stacked});
    }
    return batch_step(scratch, node(i), operands, layout_.steps).has_value();
  }

  bool gains_at(std::size_t i) const { return gains(body_, node(i), layout_.steps, tuning_); }

  void note(std::size_t i) const {
    const std::string text = node_text(node(i)), kept = "kept " + text + " in every step";
    if (moves_[i] && part_[i] == Part::after)
      log_->add("sank " + text, "no state depends on it: computed for all steps at once, after the loop");
    else if (moves_[i])
      log_->add("hoisted " + text, "it depends on no state: computed for all steps at once, before the loop");
    else if (part_[i] == Part::core)
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
    std::vector<bool> can(n(), false), worth(n(), false);  // worth: gains, or follows on what does
    for (std::size_t i = 0; i < n(); ++i) {
      if (node(i).op == Op::input) {
        can[i] = part_[i] != Part::core;
        continue;
      }
      if (part_[i] > Part::before) continue;
      can[i] = part_[i] == Part::invariant ? op_info(node(i).op).kind != OpKind::body : can_batch(i);
      worth[i] = gains_at(i) || (part_[i] == Part::invariant && op_info(node(i).op).kind != OpKind::source);
      for (const ValueId& id : node(i).inputs) {
        can[i] = can[i] && can[index(id)];
        worth[i] = worth[i] || worth[index(id)];
      }
    }
    const std::vector<bool> crosses = choose_crossing(can);
    std::vector<bool> feeds_loop(n(), false);  // something inside needs it
    for (std::size_t i = n(); i-- > 0;) {
      const bool outside = can[i] && node(i).op != Op::input;
      const bool invariant = part_[i] == Part::invariant;
      moves_[i] = outside && worth[i] && (invariant || gains_at(i) || crosses[i] || !feeds_loop[i]);
      for (const ValueId& id : node(i).inputs)
        feeds_loop[index(id)] = feeds_loop[index(id)] || feeds_loop[i] || !can[i];
    }
    move_unread(can, worth);
  }
  // What nothing inside reads, because its readers have left, leaves too: a saved value that they are computed from.
  void move_unread(const std::vector<bool>& can, const std::vector<bool>& worth) {
    std::vector<bool> read(n(), false);
    for (std::size_t k = 0; is_state_output(k); ++k) read[index(body_.outputs()[k].value)] = true;
    for (std::size_t i = n(); i-- > 0;) {
      moves_[i] = moves_[i] || (can[i] && worth[i] && !read[i] && node(i).op != Op::input);
      for (const ValueId& id : node(i).inputs) read[index(id)] = read[index(id)] || !moves_[i];
    }
  }

  // The values that enter the loop when the fewest bytes do, as nodes.
  std::vector<bool> choose_crossing(const std::vector<bool>& can) const {
    std::vector<ValueId> used, available;
    for (std::size_t i = 0; i < n(); ++i)
      for (const ValueId& id : node(i).inputs)
        if (!can[i] && can[index(id)]) used.push_back(id);
    for (std::size_t k = 0; is_state_output(k); ++k)
      if (can[index(body_.outputs()[k].value)]) used.push_back(body_.outputs()[k].value);
    for (std::size_t i = 0; i < n(); ++i)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(node(i).outputs.size()); ++k)
        if (part_[i] == Part::invariant || (can[i] && node(i).op == Op::input))
          available.push_back({static_cast<std::int32_t>(i), k});
    std::vector<bool> crosses(n(), false);
    const auto stays = [this](const Node& node) { return !gains(body_, node, layout_.steps, tuning_); };
    for (const ValueId& id : choose_saved(body_, used, available, stays)) crosses[index(id)] = true;
    return crosses;
  }

  void find_after() {
    std::vector<bool> sinks(n(), true);  // every reader is outside after the loop
    std::vector<bool> leads(n(), false);  // some reader after it gains
    for (std::size_t i = n(); i-- > 0;) {
      const bool after = part_[i] == Part::after && sinks[i] && can_batch(i);
      const bool gain = after && (gains_at(i) || leads[i]);
      for (const ValueId& id : node(i).inputs) {
        sinks[index(id)] = sinks[index(id)] && after;
        if (gain) leads[index(id)] = true;
      }
      after_[static_cast<std::int32_t>(i)] = after;
    }
    // From the first gaining node on, everything up to the outputs moves with it.
    std::vector<bool> downstream(n(), false);
    for (std::size_t i = 0; i < n(); ++i) {
      downstream[i] = after_[static_cast<std::int32_t>(i)] && gains_at(i);
      for (const ValueId& id : node(i).inputs)
        downstream[i] = downstream[i] || (after_[static_cast<std::int32_t>(i)] && downstream[index(id)]);
      moves_[i] = moves_[i] || downstream[i];
    }
  }

  // Outside value of a body value that is an input, or a node that moved.
  Batched outside(const ValueId& id) {
    const auto known = outside_.find(id);
    if (known != outside_.end()) return known->second;
    const auto i = index(id);
    Batched result;
    if (node(i).op == Op::input) {
      result = {at_.operands[i], part_[i] == Part::before};
    } else {
      std::vector<Batched> operands;
      bool stacked = false;
      for (const ValueId& operand : node(i).inputs) {
        operands.push_back(outside(operand));
        stacked |= operands.back().stacked;
      }
      const OriginScope of_node(at_.target, node(i).origin);
      if (stacked) {
        result = {*batch_step(at_.target, node(i), operands, layout_.steps), true};
      } else {
        std::vector<Value> plain;
        for (const Batched& operand : operands) plain.push_back(operand.value);
        result = {at_.target.append_copy(node(i), plain)[static_cast<std::size_t>(id.output)], false};
      }
    }
    outside_[id] = result;
    return result;
  }
  bool is_outside(const ValueId& id) const { return moves_[index(id)]; }

  std::vector<Value> rebuild() {
    const auto n_states = static_cast<std::size_t>(layout_.n_states),
               n_sequences = static_cast<std::size_t>(layout_.n_sequences);
    const std::size_t n_outputs = body_.outputs().size();
    // Values that cross: hoisted ones read inside become inputs; inner ones read after the loop become outputs.
    std::vector<ValueId> hoisted, stacked;
    const auto add = [](std::vector<ValueId>& list, const ValueId& id) {
      if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
    };
    for (std::size_t i = 0; i < n(); ++i)
      for (const ValueId& id : node(i).inputs) {
        const bool known_outside = part_[index(id)] == Part::invariant ||
                                   (part_[index(id)] == Part::before && node(index(id)).op == Op::input);
        if (moves_[i] && part_[i] == Part::after && !is_outside(id) && !known_outside) add(stacked, id);
        if (!moves_[i] && is_outside(id)) add(hoisted, id);
      }
    for (std::size_t k = 0; k < n_states; ++k)
      if (is_outside(body_.outputs()[k].value)) add(hoisted, body_.outputs()[k].value);

    std::vector<Value> operands(at_.operands.begin(),
                                at_.operands.begin() + static_cast<std::ptrdiff_t>(n_states + n_sequences));
    std::vector<Value> constants(at_.operands.begin() + static_cast<std::ptrdiff_t>(n_states + n_sequences),
                                 at_.operands.end());
    auto inner = std::make_shared<Graph>();
    std::map<ValueId, Value> map;
    const auto add_input = [&](const ValueId& id) {
      map[id] = inner->input("in" + std::to_string(inner->inputs().size()), body_.type(id));
    };
    for (std::size_t i = 0; i < n_states + n_sequences; ++i) add_input(body_.inputs()[i].value);
    std::int64_t sequences = layout_.n_sequences;
    std::vector<ValueId> constant_ids;
    for (const ValueId& id : hoisted) {
      const Batched value = outside(id);
      if (!value.stacked) {
        constants.push_back(value.value);
        constant_ids.push_back(id);
        continue;
      }
      operands.push_back(value.value);
      add_input(id);
      ++sequences;
    }
    for (std::size_t i = n_states + n_sequences; i < body_.inputs().size(); ++i) add_input(body_.inputs()[i].value);
    for (const ValueId& id : constant_ids) add_input(id);
    operands.insert(operands.end(), constants.begin(), constants.end());

    for (std::size_t i = 0; i < n(); ++i) {
      if (moves_[i] || node(i).op == Op::input) continue;
      std::vector<Value> in;
      for (const ValueId& id : node(i).inputs) in.push_back(map.at(id));
      const auto values = inner->append_copy(node(i), in);
      for (std::size_t k = 0; k < values.size(); ++k)
        map[{static_cast<std::int32_t>(i), static_cast<std::int32_t>(k)}] = values[k];
    }
    std::vector<int> where(n_outputs, -1);
    int n_inner = 0;
    for (std::size_t k = 0; k < n_outputs; ++k) {
      const ValueId id = body_.outputs()[k].value;
      if (!is_state_output(k) && is_outside(id)) continue;
      inner->output("out" + std::to_string(n_inner), map.at(id));
      where[k] = n_inner++;
    }
    const int first_stacked = n_inner;
    for (const ValueId& id : stacked) inner->output("out" + std::to_string(n_inner++), map.at(id));

    std::vector<Value> values;
    if (n_inner > 0) {
      Attributes attributes = at_.node.attributes;
      attributes.set("sequences", sequences);
      values = scan_body(operands, std::move(attributes), drop_dead(*inner));
    }
    for (std::size_t k = 0; k < stacked.size(); ++k)
      outside_[stacked[k]] = {values[static_cast<std::size_t>(first_stacked) + k], true};
    std::vector<Value> result;
    for (std::size_t k = 0; k < n_outputs; ++k) {
      if (where[k] >= 0) {
        result.push_back(values[static_cast<std::size_t>(where[k])]);
        continue;
      }
      const Batched value = outside(body_.outputs()[k].value);
      result.push_back(value.stacked ? value.value
                                     : broadcast(value.value, value.value.shape().inserted(0, layout_.steps)));
    }
    return result;
  }

  const RewriteNode& at_;
  const Graph& body_;
  const ScanLayout layout_;
  const Tuning& tuning_;
  PassLog* const log_;
  std::vector<Part> part_;
  std::vector<bool> moves_;
  std::map<std::int32_t, bool> after_;
  std::map<ValueId, Batched> outside_;
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
