// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/loss_weight.h"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// One term of the sum that is the loss.
struct Summand {
  Value value;
  double factor;
  Value weight;  // null: none was found
  Value scaled() const { return factor == 1 ? value : value * factor; }
};

Value operand(Value v, std::size_t i) { return v.graph().value(v.node().inputs[i]); }
bool is_constant(Value v) { return v.node().op == Op::constant; }

// The inputs that a value depends on.
struct Sources {
  bool parameters = false, batch = false;
};
Sources sources_of(Value v, const Scope& scope) {
  std::set<std::int32_t> parameters, seen;
  for (const ParameterSpec& p : scope.parameters()) parameters.insert(v.graph().find_input(p.name).id().node);
  Sources found;
  std::vector<std::int32_t> open{v.id().node};
  while (!open.empty()) {
    const std::int32_t id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    const Node& node = v.graph().node(id);
    if (node.op == Op::input) (parameters.contains(id) ? found.parameters : found.batch) = true;
    for (const ValueId from : node.inputs) open.push_back(from.node);
  }
  return found;
}

// n of x / max(n, c).
Value without_floor(Value n) {
  if (n.node().op != Op::maximum) return n;
  return is_constant(operand(n, 1)) ? operand(n, 0) : is_constant(operand(n, 0)) ? operand(n, 1) : n;
}

// The number of elements that a term averages over; null if it is no mean.
Value weight_of(Value term, const Scope& scope, bool are_means) {
  const Op op = term.node().op;
  if (op == Op::div && !sources_of(operand(term, 1), scope).parameters) return without_floor(operand(term, 1));
  if (are_means && op == Op::reduce_sum && sources_of(term, scope).batch)
    return scalar_like(term, static_cast<double>(operand(term, 0).shape().elements()));
  return {};
}

// The terms of `v`, each times `factor`.
void add_terms(Value v, double factor, std::vector<Summand>& terms) {
  const Op op = v.node().op;
  const auto number = [](Value c) {
    return c.node().attributes.get<std::shared_ptr<const Tensor>>("value")->at(0);
  };
  if (op == Op::add || op == Op::sub) {
    add_terms(operand(v, 0), factor, terms);
    add_terms(operand(v, 1), op == Op::add ? factor : -factor, terms);
  } else if (op == Op::neg) {
    add_terms(operand(v, 0), -factor, terms);
  } else if (op == Op::mul && is_constant(operand(v, 1))) {
    add_terms(operand(v, 0), factor * number(operand(v, 1)), terms);
  } else if (op == Op::mul && is_constant(operand(v, 0))) {
    add_terms(operand(v, 1), factor * number(operand(v, 0)), terms);
  } else if (op == Op::div && is_constant(operand(v, 1))) {
    add_terms(operand(v, 0), factor / number(operand(v, 1)), terms);
  } else {
    terms.push_back({v, factor, {}});
  }
}

}  // namespace

void state_weight(Scope& scope, TaskGraph& task, Value otherwise, bool are_means) {
  task.weight = otherwise;
  if (!task.loss || task.loss.rank() != 0) return;
  std::vector<Summand> terms;
  add_terms(task.loss, 1, terms);
  for (Summand& t : terms) t.weight = weight_of(t.value, scope, are_means);
  const auto has_weight = [](const Summand& t) { return static_cast<bool>(t.weight); };
  const auto is_quotient = [&](const Summand& t) { return has_weight(t) && !is_constant(t.weight); };
  auto first = std::ranges::find_if(terms, is_quotient);
  if (first == terms.end()) first = std::ranges::find_if(terms, has_weight);
  if (first == terms.end()) return;
  task.weight = first->weight;
  const auto is_first = [&](const Summand& t) { return t.weight && t.weight.id() == task.weight.id(); };
  if (!scope.training() || std::ranges::all_of(terms, is_first)) return;
  task.loss = {};
  for (const Summand& t : terms)
    if (!is_first(t)) scope.add_penalty(t.scaled(), t.weight ? t.weight : otherwise);
    else task.loss = task.loss ? task.loss + t.scaled() : t.scaled();
}

}  // namespace unroll
