// SPDX-License-Identifier: Apache-2.0
#include "core/passes/scan/body_moves.h"

#include <algorithm>
#include <utility>

#include "core/autodiff/transplant.h"
#include "core/passes/passes.h"

namespace unroll {

BodyMoves::BodyMoves(const RewriteNode& at) : at_(at), body_(*at.node.body), layout_(scan_layout(at.node)) {
  classify();
}

// With segments what leaves would be as large as without them.
bool BodyMoves::can_move() const {
  return !layout_.has_lengths && !layout_.has_reset && !layout_.packed && layout_.steps > 0 &&
         !at_.node.attributes.get_or<bool>("segments", false);
}

void BodyMoves::classify() {
  part_.assign(n(), Part::invariant);
  constexpr Part k_of_inputs[] = {Part::core, Part::before, Part::invariant};  // by ScanRole
  for (std::size_t i = 0; i < body_.inputs().size(); ++i)
    part_[body_.inputs()[i].value.node] = k_of_inputs[static_cast<int>(scan_role(layout_, i))];
  for (std::size_t i = 0; i < n(); ++i)
    for (const ValueId& id : node(i).inputs) part_[i] = std::max(part_[i], part_[id.node]);
  PerNode<bool> feeds_state(body_);
  for (std::size_t k = 0; is_state_output(k); ++k) feeds_state[body_.outputs()[k].value.node] = true;
  for (std::size_t i = n(); i-- > 0;)
    if (feeds_state[i])
      for (const ValueId& id : node(i).inputs) feeds_state[id.node] = true;
  for (std::size_t i = 0; i < n(); ++i)
    if (part_[i] == Part::core && !feeds_state[i] && node(i).op != Op::input) part_[i] = Part::after;
}

bool BodyMoves::can_batch(std::size_t i) const {
  Graph scratch;
  std::vector<Batched> operands;
  for (const ValueId& id : node(i).inputs) {
    const bool stacked = part_[id.node] != Part::invariant;
    Type type = body_.type(id);
    if (stacked && type.shape.rank() == Shape::k_max_rank) return false;
    if (stacked) type.shape = type.shape.inserted(0, layout_.steps);
    operands.push_back({scratch.input("x" + std::to_string(operands.size()), type), stacked});
  }
  return batch_step(scratch, node(i), operands, layout_.steps).has_value();
}

// Outside value of a body value that is an input, or a node that moved.
Batched BodyMoves::outside(const ValueId& id) {
  const auto known = outside_.find(id);
  if (known != outside_.end()) return known->second;
  const Node& made = body_.node(id.node);
  Batched result;
  if (made.op == Op::input) {
    result = {at_.operands[id.node], part_[id.node] == Part::before};
  } else {
    std::vector<Batched> operands;
    bool stacked = false;
    for (const ValueId& operand : made.inputs) {
      operands.push_back(outside(operand));
      stacked |= operands.back().stacked;
    }
    const OriginScope of_node(at_.target, made.origin);
    if (stacked) {
      result = {*batch_step(at_.target, made, operands, layout_.steps), true};
    } else {
      std::vector<Value> plain;
      for (const Batched& operand : operands) plain.push_back(operand.value);
      result = {at_.target.append_copy(body_, made, plain)[id.output], false};
    }
  }
  outside_[id] = result;
  return result;
}

// Values that cross the border of the loop: moved ones that the loop reads, and its own that moved nodes read after it.
BodyMoves::Crossing BodyMoves::find_crossing() const {
  Crossing crossing;
  const auto add = [](std::vector<ValueId>& list, const ValueId& id) {
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  };
  for (std::size_t i = 0; i < n(); ++i)
    for (const ValueId& id : node(i).inputs) {
      const bool known_outside = part_[id.node] == Part::invariant ||
                                 (part_[id.node] == Part::before && body_.node(id.node).op == Op::input);
      if (moves_[i] && part_[i] == Part::after && !is_outside(id) && !known_outside) add(crossing.stacked, id);
      if (!moves_[i] && is_outside(id)) add(crossing.entering, id);
    }
  for (std::size_t k = 0; is_state_output(k); ++k)
    if (is_outside(body_.outputs()[k].value)) add(crossing.entering, body_.outputs()[k].value);
  return crossing;
}

// The loop computes `results`. Returns its results.
std::vector<Value> BodyMoves::emit_loop(const std::vector<ValueId>& entering, const std::vector<ValueId>& results) {
  const ScanParts parts(at_.node, at_.operands);
  ScanBuilder loop(parts);
  std::map<ValueId, Value> inner;
  const std::vector<Value> inputs = loop.add_all(parts, body_);
  for (std::size_t i = 0; i < inputs.size(); ++i) inner[body_.inputs()[i].value] = inputs[i];
  for (const ValueId& id : entering) {
    const Batched value = outside(id);
    inner[id] = value.stacked ? loop.sequence(value.value) : loop.constant(value.value);
  }
  if (results.empty()) return {};
  return loop.emit(transplant(loop.step(), body_, results, std::move(inner)));
}

std::vector<Value> BodyMoves::rebuild(const PerNode<bool>& moves) {
  moves_ = moves;
  const Crossing crossing = find_crossing();
  std::vector<ValueId> results;
  for (std::size_t k = 0; k < body_.outputs().size(); ++k)
    if (is_state_output(k) || !is_outside(body_.outputs()[k].value)) results.push_back(body_.outputs()[k].value);
  const std::size_t n_kept = results.size();
  results.insert(results.end(), crossing.stacked.begin(), crossing.stacked.end());
  const std::vector<Value> values = emit_loop(crossing.entering, results);
  for (std::size_t k = n_kept; k < results.size(); ++k) outside_[results[k]] = {values[k], true};

  std::vector<Value> outputs;
  std::size_t next = 0;
  for (std::size_t k = 0; k < body_.outputs().size(); ++k) {
    const ValueId id = body_.outputs()[k].value;
    if (is_state_output(k) || !is_outside(id)) {
      outputs.push_back(values[next++]);
      continue;
    }
    const auto [value, is_stacked] = outside(id);
    outputs.push_back(is_stacked ? value : broadcast(value, value.shape().inserted(0, layout_.steps)));
  }
  return outputs;
}

}  // namespace unroll
