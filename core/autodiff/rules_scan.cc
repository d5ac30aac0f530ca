// SPDX-License-Identifier: Apache-2.0
// The gradient of a scan: the same forward scan with additional outputs (the saved values), and a scan in reverse. The
// step of the reverse scan is derived by differentiating the body, with cotangents as inputs.
#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "core/autodiff/gradient_body.h"
#include "core/autodiff/lower_masks.h"
#include "core/autodiff/reach.h"
#include "core/autodiff/rules.h"
#include "core/autodiff/saved.h"
#include "core/autodiff/transplant.h"
#include "core/ir/match/recognize.h"
#include "core/ir/ops/scan_parts.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/per_node.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;
using Flags = std::vector<bool>;

// A scan without lengths and reset, and what is asked of its gradient. Operands are states, sequences, constants.
struct Loop {
  Graph& graph;
  Node node;
  ScanLayout layout;
  Values in, out, d_out;
  Flags wanted;

  std::size_t n_states() const { return static_cast<std::size_t>(layout.n_states); }
  ScanRole role(std::size_t i) const { return scan_role(layout, i); }
  ScanParts parts() const { return {node, in}; }
};

// Masks become sequences, behind the others; they want no gradient.
Loop without_masks(const Backward& b) {
  const ScanLayout layout = scan_layout(b.node);
  const Node node = b.graph.node(lower_masks(b.graph, b.out[0].id().node)[0].id().node);
  Values in;
  for (const ValueId id : node.inputs) in.push_back(b.graph.value(id));
  Flags data, constants;
  for (std::size_t i = 0; i < b.in.size(); ++i)
    if (scan_role(layout, i) < ScanRole::constant) data.push_back(b.wanted[i]);
    else if (scan_role(layout, i) == ScanRole::constant) constants.push_back(b.wanted[i]);
  data.resize(in.size() - constants.size(), false);
  data.insert(data.end(), constants.begin(), constants.end());
  return {b.graph, node, scan_layout(node), std::move(in), b.out, b.d_out, std::move(data)};
}

// States whose cotangent is carried from step to step: they depend on something wanted, and something that has a
// cotangent depends on them. Both sets grow until the loop adds nothing.
Flags carried_states(const Loop& loop) {
  const Graph& body = *loop.node.body;
  const std::size_t n = loop.n_states();
  Flags active = loop.wanted, live(loop.d_out.size());
  for (std::size_t k = 0; k < live.size(); ++k) live[k] = static_cast<bool>(loop.d_out[k]);
  const auto listed = [](std::span<const NamedValue> values, const Flags& flags) {
    std::vector<ValueId> ids;
    for (std::size_t i = 0; i < flags.size(); ++i)
      if (flags[i]) ids.push_back(values[i].value);
    return ids;
  };
  const auto grow = [&](Flags& flags, const ValueSet& set, std::span<const NamedValue> ends) {
    bool grown = false;
    for (std::size_t j = 0; j < n; ++j) {
      if (flags[j] || !set.contains(ends[j].value)) continue;
      flags[j] = grown = true;
    }
    return grown;
  };
  for (bool more = true; more;) more = grow(active, reached_from(body, listed(body.inputs(), active)), body.outputs());
  for (bool more = true; more;) more = grow(live, leading_to(body, listed(body.outputs(), live)), body.inputs());
  Flags carried(n);
  for (std::size_t j = 0; j < n; ++j) carried[j] = active[j] && live[j];
  return carried;
}

// One step and its gradient in one graph: forward part, cotangents as inputs, backward part.
struct Step {
  Graph graph;
  Values in, out;
  Values d_out;  // inputs; empty where zero
  Values d_in;   // empty where nothing is wanted or zero

  std::vector<ValueId> results() const {
    std::vector<ValueId> ids;
    for (const Value& value : d_in)
      if (value) ids.push_back(value.id());
    return ids;
  }
};

bool has_loop(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) { return node.op == Op::scan; });
}

// The body with its composites written out, but for those that hold a loop: what a step keeps for the backward one, a
// norm's deviation say, is chosen among the values inside of them too.
std::shared_ptr<const Graph> with_open_composites(std::shared_ptr<const Graph> body) {
  bool opened = false;
  auto result = std::make_shared<Graph>();
  std::map<ValueId, Value> values;
  for (const NamedValue& input : body->inputs())
    values.emplace(input.value, result->input(input.name, body->type(input.value)));
  for (std::size_t n = 0; n < body->nodes().size(); ++n) {
    const Node& node = body->nodes()[n];
    if (node.op == Op::input) continue;
    Values in;
    for (const ValueId id : node.inputs) in.push_back(values.at(id));
    const auto inside = op_info(node.op).tier == OpTier::composite ? composite_body(*body, node) : nullptr;
    const bool opens = inside && !has_loop(*inside);
    opened = opened || opens;
    const OriginScope of_node(*result, node.origin);
    const Values out = opens ? inline_graph(*result, *inside, in) : result->append_copy(*body, node, in);
    for (std::size_t k = 0; k < out.size(); ++k)
      values.emplace(ValueId{static_cast<std::int32_t>(n), static_cast<std::int32_t>(k)}, out[k]);
  }
  for (const NamedValue& output : body->outputs()) result->output(output.name, values.at(output.value));
  return opened ? with_open_composites(std::move(result)) : body;
}

std::unique_ptr<Step> differentiate_step(const Loop& loop, const Flags& carried) {
  auto step = std::make_unique<Step>();
  const auto opened = with_open_composites(loop.node.body);
  const Graph& body = *opened;
  for (const NamedValue& input : body.inputs())
    step->in.push_back(step->graph.input("in." + input.name, body.type(input.value)));
  step->out = inline_graph(step->graph, body, step->in);
  for (std::size_t k = 0; k < step->out.size(); ++k) {
    const bool has_cotangent = k < loop.n_states() ? carried[k] : static_cast<bool>(loop.d_out[k]);
    const std::string name = "d." + body.outputs()[k].name;
    step->d_out.push_back(has_cotangent ? step->graph.input(name, cotangent_type(step->out[k].type())) : Value());
  }
  Values wrt;
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < step->in.size(); ++i) {
    if (!(i < loop.n_states() ? carried[i] : loop.wanted[i])) continue;
    wrt.push_back(step->in[i]);
    at.push_back(i);
  }
  step->d_in.resize(step->in.size());
  const Values gradients = pull_back(step->out, step->d_out, wrt);
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    const bool carry = at[g] < loop.n_states();
    step->d_in[at[g]] = gradients[g] || !carry ? gradients[g] : filled(step->graph, cotangent_type(wrt[g].type()), 0);
  }
  return step;
}

// Values of the forward part that the backward part reads.
std::vector<ValueId> used_by_backward(const Step& step) {
  PerNode<bool> backward(step.graph), needed(step.graph);
  for (const Value& d : step.d_out)
    if (d) backward[d.id().node] = true;
  const auto nodes = step.graph.nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n)
    for (const ValueId id : nodes[n].inputs) backward[n] = backward[n] || backward[id.node];

  std::vector<ValueId> used;
  const auto visit = [&](ValueId id) {
    if (backward[id.node]) needed[id.node] = true;
    else used.push_back(id);
  };
  for (const ValueId id : step.results()) visit(id);
  for (std::size_t n = nodes.size(); n-- > 0;)
    if (needed[n])
      for (const ValueId id : nodes[n].inputs) visit(id);
  return used;
}

// The value outside of the loop that the backward scan reads for a value of the forward part.
struct Source {
  Value outer;
  bool per_step;
};
using Sources = std::map<ValueId, Source>;

// Sequences, constants and outputs of the forward scan: values that need not be saved.
Sources available_sources(const Loop& loop, const Step& step) {
  Sources sources;
  for (std::size_t i = loop.n_states(); i < step.in.size(); ++i)
    sources.try_emplace(step.in[i].id(), Source{loop.in[i], loop.role(i) == ScanRole::sequence});
  for (std::size_t k = loop.n_states(); k < step.out.size(); ++k)
    sources.try_emplace(step.out[k].id(), Source{loop.out[k], true});
  return sources;
}

std::vector<ValueId> keys_of(const Sources& sources) {
  std::vector<ValueId> ids;
  for (const auto& [id, source] : sources) ids.push_back(id);
  return ids;
}
std::vector<ValueId> constants_of(const Sources& sources) {
  std::vector<ValueId> ids;
  for (const auto& [id, source] : sources)
    if (!source.per_step) ids.push_back(id);
  return ids;
}

// Emits the forward scan again with the saved values as further outputs, and adds these to `sources`.
void emit_forward(const Loop& loop, const Step& step, const std::vector<ValueId>& saved, Sources& sources) {
  if (saved.empty()) return;
  const ScanParts parts = loop.parts();
  ScanBuilder again(parts);
  const Values inputs = again.add_all(parts, *loop.node.body);
  std::map<ValueId, Value> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) given.emplace(step.in[i].id(), inputs[i]);
  std::vector<ValueId> results;
  for (const Value& value : step.out) results.push_back(value.id());
  results.insert(results.end(), saved.begin(), saved.end());
  const Values out = again.emit(transplant(again.step(), step.graph, results, std::move(given)));
  for (std::size_t k = 0; k < saved.size(); ++k)
    sources.insert_or_assign(saved[k], Source{out[step.out.size() + k], true});
}

Value zero_cotangent(Value x) { return filled(x.graph(), cotangent_type(x.type()), 0); }

// The backward scan in the making. Its states are the cotangents of states, then sums for the gradients of constants;
// its outputs are the gradients of sequences.
class BackwardScan {
 public:
  BackwardScan(const Loop& loop, const Step& step)
      : loop_(loop), step_(step), scan_({{"steps", loop.layout.steps}, {"reverse", !loop.layout.reverse}}) {}

  // Returns the gradient of each operand of the loop; empty where there is none.
  Values emit(const Sources& sources) {
    for (const ScanRole role : {ScanRole::state, ScanRole::constant, ScanRole::sequence})
      for (std::size_t i = 0; i < step_.d_in.size(); ++i)
        if (step_.d_in[i] && loop_.role(i) == role) add_gradient(i, role);
    add_sources(sources);
    std::vector<ValueId> wanted;
    for (const std::size_t i : order_) wanted.push_back(step_.d_in[i].id());
    Values results = transplant(scan_.step(), step_.graph, wanted, given_);
    for (std::size_t r = 0; r < results.size(); ++r)
      if (const auto sum = sums_.find(order_[r]); sum != sums_.end()) results[r] = sum->second + results[r];
    const Values out = scan_.emit(results);
    Values d_in(loop_.in.size());
    for (std::size_t r = 0; r < order_.size(); ++r) d_in[order_[r]] = out[r];
    return d_in;
  }

 private:
  void add_gradient(std::size_t i, ScanRole role) {
    order_.push_back(i);
    if (role == ScanRole::constant) sums_[i] = scan_.state(zero_cotangent(loop_.in[i]));
    if (role == ScanRole::state)
      given_.emplace(step_.d_out[i].id(), scan_.state(loop_.d_out[i] ? loop_.d_out[i] : zero_cotangent(loop_.in[i])));
  }
  // Operands for the values of the step that the gradients read.
  void add_sources(Sources sources) {
    for (std::size_t k = loop_.n_states(); k < step_.d_out.size(); ++k)
      if (step_.d_out[k]) sources.emplace(step_.d_out[k].id(), Source{loop_.d_out[k], true});
    for (const ValueId id : frontier(step_.graph, step_.results(), keys_of(sources))) {
      const auto [outer, per_step] = sources.at(id);
      given_.emplace(id, per_step ? scan_.sequence(outer) : scan_.constant(outer));
    }
  }

  const Loop& loop_;
  const Step& step_;
  ScanBuilder scan_;
  std::map<ValueId, Value> given_;     // inputs of the backward step by value of the step
  std::map<std::size_t, Value> sums_;  // by constant operand: its gradient so far
  std::vector<std::size_t> order_;     // operands in the order of the results
};

// The gradient of the composite that a loop computes, in a graph of its own: operands may depend on each other here.
Values as_composite(const Backward& b, const Graph& composite) {
  Ints d_outputs, d_inputs;
  Values operands = b.in;
  for (std::size_t k = 0; k < b.d_out.size(); ++k) {
    if (!b.d_out[k]) continue;
    d_outputs.push_back(static_cast<std::int64_t>(k));
    operands.push_back(b.d_out[k]);
  }
  for (std::size_t i = 0; i < b.in.size(); ++i)
    if (b.wanted[i]) d_inputs.push_back(static_cast<std::int64_t>(i));
  const Values gradients = inline_graph(b.graph, *gradient_graph(composite, d_outputs, d_inputs), operands);
  Values d_in(b.in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < b.in.size(); ++i)
    if (b.wanted[i]) d_in[i] = gradients[next++];
  return d_in;
}

Values scan_rule(const Backward& b) {
  if (scan_layout(b.node).packed)
    throw Error(ErrorKind::unsupported, "differentiate", "a packed scan has no gradient",
                "differentiate before planning: packed scans are made by passes");
  if (const auto composite = recognize_scan(b.graph, b.node)) return as_composite(b, *composite);
  const Loop loop = without_masks(b);
  const auto step = differentiate_step(loop, carried_states(loop));
  Values d_in(b.in.size());
  if (step->results().empty()) return d_in;
  Sources sources = available_sources(loop, *step);
  const std::vector<ValueId> saved =
      choose_saved(step->graph, used_by_backward(*step), keys_of(sources), constants_of(sources));
  emit_forward(loop, *step, saved, sources);
  const Values d_loop = BackwardScan(loop, *step).emit(sources);
  const ScanLayout layout = scan_layout(b.node);
  const std::size_t n_masks = loop.in.size() - b.node.body->inputs().size();  // constants stand behind the masks
  for (std::size_t i = 0; i < b.node.body->inputs().size(); ++i)
    d_in[i] = d_loop[scan_role(layout, i) < ScanRole::constant ? i : n_masks + i];
  return d_in;
}

constexpr RuleRow k_scan_rows[] = {{Op::scan, scan_rule}};

}  // namespace

std::span<const RuleRow> scan_rules() { return k_scan_rows; }

}  // namespace unroll
