// SPDX-License-Identifier: Apache-2.0
#include "core/passes/scan/body_moves.h"

#include <algorithm>
#include <utility>

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

bool BodyMoves::can_batch(std::size_t i) const {
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

// Outside value of a body value that is an input, or a node that moved.
Batched BodyMoves::outside(const ValueId& id) {
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
      result = {at_.target.append_copy(body_, node(i), plain)[static_cast<std::size_t>(id.output)], false};
    }
  }
  outside_[id] = result;
  return result;
}

std::vector<Value> BodyMoves::rebuild(std::vector<bool> moves) {
  moves_ = std::move(moves);
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
    const auto values = inner->append_copy(body_, node(i), in);
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

}  // namespace unroll
