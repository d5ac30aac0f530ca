// SPDX-License-Identifier: Apache-2.0
// Gradient checkpointing (Chen et al. 2016, arXiv 1604.06174, with segments of sqrt(T) steps). A loop with too many
// saved values saves only the states before each segment, and the backward loop recomputes a segment before it
// differentiates it. Both become a loop over segments around a loop over steps. Products that were computed for all
// steps at once first move back into the steps, so that they are computed per segment too.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/passes/scan/segments.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr std::int64_t k_fewest_steps = 16;

bool can_cut(const Node& node) {
  if (node.op != Op::scan || node.attributes.get_or<bool>("segments", false)) return false;
  const ScanLayout l = scan_layout(node);
  return !l.has_lengths && !l.has_reset && !l.packed && l.n_states > 0 && l.steps >= k_fewest_steps;
}

// The divisor of T nearest to sqrt(T) by ratio; 0 when none is within a factor of 8.
std::int64_t segment_steps(std::int64_t steps) {
  const double root = std::sqrt(static_cast<double>(steps));
  std::int64_t best = 0;
  double least = std::log(8.0);
  for (std::int64_t d = 2; d < steps; ++d) {
    const double distance = std::abs(std::log(static_cast<double>(d) / root));
    if (steps % d == 0 && distance <= least) best = d, least = distance;
  }
  return best;
}

// A loop and the loop that goes back over it.
struct Pair {
  std::int32_t forward;
  std::set<std::int32_t> saved;  // outputs of the forward loop that nothing but the backward loop reads
};

std::map<std::int32_t, Pair> find_pairs(const Graph& graph) {
  std::map<std::int32_t, Pair> pairs;  // by backward loop
  std::map<ValueId, std::set<std::int32_t>> readers;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph.nodes().size()); ++n)
    for (const ValueId& id : graph.node(n).inputs) readers[id].insert(n);
  for (const NamedValue& output : graph.outputs()) readers[output.value].insert(-1);
  std::set<std::int32_t> taken;
  for (std::int32_t n = static_cast<std::int32_t>(graph.nodes().size()); n-- > 0;) {
    const Node& node = graph.node(n);
    if (!can_cut(node)) continue;
    const ScanLayout l = scan_layout(node);
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (scan_role(l, k) != ScanRole::sequence) continue;
      const ValueId id = node.inputs[k];
      const Node& from = graph.node(id.node);
      if (!can_cut(from) || id.output < scan_layout(from).n_states || readers.at(id).size() != 1) continue;
      const ScanLayout f = scan_layout(from);
      if (f.steps != l.steps || f.reverse == l.reverse || taken.contains(id.node)) continue;
      const auto at = pairs.find(n);
      if (at != pairs.end() && at->second.forward != id.node) continue;
      pairs[n].forward = id.node;
      pairs[n].saved.insert(id.output);
    }
    if (pairs.contains(n)) taken.insert(pairs[n].forward), taken.insert(n);
  }
  return pairs;
}

// [T/L,L,...] as [T,...].
Value joined_stack(Value stack) {
  const Shape& s = stack.shape();
  return reshape(stack, s.removed(0).with(0, s[0] * s[1]));
}

class Cutter {
 public:
  explicit Cutter(const Graph& graph) : graph_(graph), pairs_(find_pairs(graph)) {
    for (const auto& [backward, pair] : pairs_) backward_of_[pair.forward] = backward;
  }

  std::shared_ptr<const Graph> run() {
    return rewrite(graph_, [this](const RewriteNode& at) -> std::vector<Value> {
      if (backward_of_.contains(at.id)) return forward(at, pairs_.at(backward_of_.at(at.id)));
      if (pairs_.contains(at.id)) return backward(at, pairs_.at(at.id));
      return {};
    });
  }

 private:
  struct Forward {
    ScanParts parts;                 // of the target
    std::vector<Value> checkpoints;  // states before each segment, [n,...]
  };
  static std::int64_t length_of(const Node& node) { return segment_steps(scan_layout(node).steps); }

  // A loop over the segments of a loop over steps.
  static ScanBuilder loop_over_segments(const Node& scan) {
    const ScanLayout l = scan_layout(scan);
    return ScanBuilder({{"steps", l.steps / length_of(scan)}, {"reverse", l.reverse}, {"segments", true}});
  }
  // One segment of the loop `scan` in the body of the outer loop: the loop itself, fewer steps.
  static std::vector<Value> segment(const Node& scan, const std::vector<Value>& operands) {
    ScanParts parts(scan, operands);
    parts.attributes.set("steps", length_of(scan));
    return parts.emit(scan.body);
  }

  std::vector<Value> forward(const RewriteNode& at, const Pair& pair) {
    const ScanLayout l = scan_layout(at.node);
    const std::int64_t length = length_of(at.node);
    if (length == 0) return {};
    const ScanParts parts(at.node, at.operands);
    ScanBuilder outer = loop_over_segments(at.node);
    std::vector<Value> in;
    for (const Value& state : parts.states) in.push_back(outer.state(state));
    const std::vector<Value> starts = in;
    add_operands(outer, parts, length, in);
    const auto out = segment(at.node, in);
    const auto is_saved = [&](std::size_t k) { return pair.saved.contains(static_cast<std::int32_t>(k)); };
    std::vector<Value> inner;
    for (std::size_t k = 0; k < out.size(); ++k)
      if (!is_saved(k)) inner.push_back(out[k]);
    inner.insert(inner.end(), starts.begin(), starts.end());
    const std::vector<Value> results = outer.emit(inner);
    auto next = results.begin();
    std::vector<Value> mine;
    // The backward loop, which alone reads the saved values, is about to recompute them: zeros take their place.
    for (std::size_t k = 0; k < out.size(); ++k)
      mine.push_back(is_saved(k)      ? filled(at.target, at.node.outputs[k], 0)
                     : is_state(l, k) ? *next++
                                      : joined_stack(*next++));
    forwards_[at.id] = {parts, {next, results.end()}};
    return mine;
  }

  std::vector<Value> backward(const RewriteNode& at, const Pair& pair) {
    const ScanLayout l = scan_layout(at.node);
    const Node& forward = graph_.node(pair.forward);
    const std::int64_t length = length_of(at.node);
    if (length == 0) return {};
    const Forward& made = forwards_.at(pair.forward);
    ScanBuilder outer = loop_over_segments(at.node);
    // Inputs first: those of the backward loop, then those of the forward loop.
    std::vector<Value> in(at.operands.size()), again;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const ValueId id = at.node.inputs[i];
      const ScanRole role = scan_role(l, i);
      if (role == ScanRole::sequence && id.node == pair.forward && pair.saved.contains(id.output)) continue;
      in[i] = role == ScanRole::state      ? outer.state(at.operands[i])
              : role == ScanRole::sequence ? outer.shared_sequence(cut(at.operands[i], length))
                                           : outer.shared_constant(at.operands[i]);
    }
    for (const Value& states : made.checkpoints) again.push_back(outer.shared_sequence(states));
    add_operands(outer, made.parts, length, again);
    const auto saved = segment(forward, again);
    for (std::size_t i = 0; i < in.size(); ++i)
      if (!in[i]) in[i] = saved[at.node.inputs[i].output];
    std::vector<Value> results = outer.emit(segment(at.node, in));
    for (std::size_t k = 0; k < results.size(); ++k)
      if (!is_state(l, k)) results[k] = joined_stack(results[k]);
    return results;
  }

  // Adds the sequences and constants of a loop over steps to the loop over segments, and to the operands of a segment.
  void add_operands(ScanBuilder& outer, const ScanParts& parts, std::int64_t length, std::vector<Value>& segment) {
    for (const Value& x : parts.sequences) segment.push_back(outer.shared_sequence(cut(x, length)));
    for (const Value& x : parts.constants) segment.push_back(outer.shared_constant(x));
  }

  // [T,...] as [T/L,L,...], the same value each time.
  Value cut(Value stack, std::int64_t length) {
    Value& known = cuts_[stack.id()];
    if (!known) known = reshape(stack, stack.shape().with(0, length).inserted(0, stack.shape()[0] / length));
    return known;
  }

  const Graph& graph_;
  std::map<std::int32_t, Pair> pairs_;  // by backward loop
  std::map<std::int32_t, std::int32_t> backward_of_;
  std::map<std::int32_t, Forward> forwards_;
  std::map<ValueId, Value> cuts_;  // of the target
};

}  // namespace

std::shared_ptr<const Graph> checkpoint(const Graph& graph, PassLog* log) {
  std::shared_ptr<const Graph> result = drop_dead(graph);
  // From the last loop on: what an earlier one changes moves the numbers of later nodes only.
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [backward, pair] : find_pairs(*result)) {
      if (segment_steps(scan_layout(result->node(backward)).steps) == 0) continue;
      if (auto moved = products_behind_into_steps(*result, backward)) {
        result = drop_dead(*moved);
        changed = true;
        break;
      }
    }
  }
  const auto pairs = find_pairs(*result);
  std::set<std::int32_t> loops;
  for (const auto& [backward, pair] : pairs)
    if (segment_steps(scan_layout(result->node(backward)).steps) > 0) loops.insert({backward, pair.forward});
  for (const std::int32_t loop : loops) {
    const std::int64_t steps = scan_layout(result->node(loop)).steps, length = segment_steps(steps);
    if (log)
      log->add("split a loop of " + std::to_string(steps) + " steps into " + std::to_string(steps / length) +
                   " segments of " + std::to_string(length),
               "the plan needs more than the memory limit");
  }
  result = drop_dead(*rewrite(*result, [&](const RewriteNode& at) {
    return loops.contains(at.id) ? products_into_steps(at) : std::vector<Value>{};
  }));
  return drop_dead(*Cutter(*result).run());
}

}  // namespace unroll
