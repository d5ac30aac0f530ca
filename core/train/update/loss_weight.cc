// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/loss_weight.h"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "unroll/ops.h"

namespace unroll {

namespace {

// Of a sum that is the loss.
struct Summand {
  Value value, weight;  // weight null: none was found
};

Value operand(Value v, std::size_t i) { return v.graph().value(v.node().inputs[i]); }
bool is_constant(Value v) { return v.node().op == Op::constant; }

bool depends_on_parameters(Value v, const Scope& scope) {
  std::set<std::int32_t> parameters, seen;
  for (const ParameterSpec& p : scope.parameters()) parameters.insert(v.graph().find_input(p.name).id().node);
  std::vector<std::int32_t> open{v.id().node};
  while (!open.empty()) {
    const std::int32_t id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    if (parameters.contains(id)) return true;
    for (const ValueId from : v.graph().node(id).inputs) open.push_back(from.node);
  }
  return false;
}

// n of x / max(n, c).
Value without_floor(Value n) {
  if (n.node().op != Op::maximum) return n;
  return is_constant(operand(n, 1)) ? operand(n, 0) : is_constant(operand(n, 0)) ? operand(n, 1) : n;
}

// The terms of `v`, each times `factor`.
void add_terms(Value v, double factor, const Scope& scope, std::vector<Summand>& terms) {
  const Op op = v.node().op;
  const auto number = [](Value c) {
    return c.node().attributes.get<std::shared_ptr<const Tensor>>("value")->at(0);
  };
  if (op == Op::add || op == Op::sub) {
    add_terms(operand(v, 0), factor, scope, terms);
    add_terms(operand(v, 1), op == Op::add ? factor : -factor, scope, terms);
  } else if (op == Op::neg) {
    add_terms(operand(v, 0), -factor, scope, terms);
  } else if (op == Op::mul && is_constant(operand(v, 1))) {
    add_terms(operand(v, 0), factor * number(operand(v, 1)), scope, terms);
  } else if (op == Op::mul && is_constant(operand(v, 0))) {
    add_terms(operand(v, 1), factor * number(operand(v, 0)), scope, terms);
  } else if (op == Op::div && is_constant(operand(v, 1))) {
    add_terms(operand(v, 0), factor / number(operand(v, 1)), scope, terms);
  } else {
    const bool is_quotient = op == Op::div && !depends_on_parameters(operand(v, 1), scope);
    terms.push_back({factor == 1 ? v : v * factor, is_quotient ? without_floor(operand(v, 1)) : Value()});
  }
}

}  // namespace

void state_weight(Scope& scope, TaskGraph& task, Value otherwise) {
  task.weight = otherwise;
  if (!task.loss || task.loss.rank() != 0) return;
  std::vector<Summand> terms;
  add_terms(task.loss, 1, scope, terms);
  const auto first = std::ranges::find_if(terms, [](const Summand& t) { return static_cast<bool>(t.weight); });
  if (first == terms.end()) return;
  task.weight = first->weight;
  const auto is_first = [&](const Summand& t) { return t.weight && t.weight.id() == task.weight.id(); };
  if (!scope.training() || std::ranges::all_of(terms, is_first)) return;
  task.loss = {};
  for (const Summand& t : terms)
    if (!is_first(t)) scope.add_penalty(t.value, t.weight ? t.weight : otherwise);
    else task.loss = task.loss ? task.loss + t.value : t.value;
}

}  // namespace unroll
