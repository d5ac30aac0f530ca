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
#include "unroll/ir/ops.h"
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
  bool is_sequence(std::size_t i) const {
    return i >= n_states() && i < n_states() + static_cast<std::size_t>(layout.n_sequences);
  }
  bool is_constant(std::size_t i) const { return i >= n_states() + static_cast<std::size_t>(layout.n_sequences); }
  std::string input_name(std::size_t i) const { return node.body->inputs()[i].name; }
};

Loop without_masks(const Backward& b) {
  const ScanLayout layout = scan_layout(b.node);
  const Node node = b.graph.node(lower_masks(b.graph, b.out[0].id().node)[0].id().node);
  Values in;
  for (const ValueId id : node.inputs) in.push_back(b.graph.value(id));
  // Masks come between sequences and constants and want nothing.
  const auto n_masks = static_cast<std::size_t>(layout.has_lengths + layout.has_reset);
  Flags wanted(b.wanted.begin(), b.wanted.end() - static_cast<std::ptrdiff_t>(n_masks));
  wanted.insert(wanted.begin() + layout.n_states + layout.n_sequences, n_masks, false);
  return {b.graph, node, scan_layout(node), std::move(in), b.out, b.d_out, std::move(wanted)};
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
  const auto nodes = step.graph.nodes();
  Flags backward(nodes.size()), needed(nodes.size());
  for (const Value& d : step.d_out)
    if (d) backward[static_cast<std::size_t>(d.id().node)] = true;
  for (std::size_t n = 0; n < nodes.size(); ++n)
    for (const ValueId id : nodes[n].inputs) backward[n] = backward[n] || backward[static_cast<std::size_t>(id.node)];

  std::vector<ValueId> used;
  const auto visit = [&](ValueId id) {
    if (backward[static_cast<std::size_t>(id.node)]) {
      needed[static_cast<std::size_t>(id.node)] = true;
    } else {
      used.push_back(id);
    }
  };
  for (const ValueId id : step.results()) visit(id);
  for (std::size_t n = nodes.size(); n-- > 0;)
    if (needed[n])
      for (const ValueId id : nodes[n].inputs) visit(id);
  return used;
}

// Where the backward scan finds a value of the forward part: outside, per step or the same in every step.
struct Source {
  Value outer;
  bool per_step;
};
using Sources = std::map<ValueId, Source>;

// What is at hand without saving: sequences, constants and what the forward scan puts out already.
Sources available_sources(const Loop& loop, const Step& step) {
  Sources sources;
  for (std::size_t i = loop.n_states(); i < step.in.size(); ++i)
    sources.try_emplace(step.in[i].id(), Source{loop.in[i], loop.is_sequence(i)});
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

// The forward scan once more, with the saved values as further outputs; adds where they are to `sources`.
void emit_forward(const Loop& loop, const Step& step, const std::vector<ValueId>& saved, Sources& sources) {
  if (saved.empty()) return;
  auto body = std::make_shared<Graph>();
  std::map<ValueId, Value> given;
  for (std::size_t i = 0; i < step.in.size(); ++i)
    given.emplace(step.in[i].id(), body->input(loop.input_name(i), step.in[i].type()));
  std::vector<ValueId> results;
  for (const Value& value : step.out) results.push_back(value.id());
  results.insert(results.end(), saved.begin(), saved.end());
  const Values copies = transplant(*body, step.graph, results, std::move(given));
  for (std::size_t k = 0; k < copies.size(); ++k) {
    std::string name =
        k < step.out.size() ? loop.node.body->outputs()[k].name : "saved" + std::to_string(k - step.out.size());
    while (body->find_output(name)) name += "_";
    body->output(name, copies[k]);
  }
  const Values out = scan_body(loop.in, loop.node.attributes, std::move(body));
  for (std::size_t k = 0; k < saved.size(); ++k)
    sources.insert_or_assign(saved[k], Source{out[step.out.size() + k], true});
}

// Operands of the backward scan and the inputs of its body that stand for them.
struct Operands {
  std::shared_ptr<Graph> body = std::make_shared<Graph>();
  Values outer;
  std::map<ValueId, Value> given;  // by value of the step
  std::int64_t n_sequences = 0;

  Value add(Value source, bool per_step, const std::string& name) {
    Type type = source.type();
    if (per_step) type.shape = type.shape.removed(0);
    outer.push_back(source);
    n_sequences += per_step;
    return body->input(name + std::to_string(outer.size() - 1), type);
  }
};

Value zero_cotangent(Value x) { return filled(x.graph(), cotangent_type(x.type()), 0); }

// Returns the gradient of each operand of the loop; empty where there is none.
Values emit_backward(const Loop& loop, const Step& step, const Sources& sources) {
  Operands operands;
  std::vector<std::size_t> order;  // operands of the loop, as the backward scan gives their gradients
  Values sums;                     // of constants, so far
  for (std::size_t i = 0; i < step.d_in.size(); ++i) {
    if (!step.d_in[i] || loop.is_sequence(i)) continue;
    const bool constant = loop.is_constant(i);
    const Value start = constant || !loop.d_out[i] ? zero_cotangent(loop.in[i]) : loop.d_out[i];
    const Value inner = operands.add(start, false, constant ? "d_constant" : "d_state");
    if (constant)
      sums.push_back(inner);
    else
      operands.given.emplace(step.d_out[i].id(), inner);
    order.push_back(i);
  }
  const std::size_t n_states = order.size();
  for (std::size_t i = 0; i < step.d_in.size(); ++i)
    if (step.d_in[i] && loop.is_sequence(i)) order.push_back(i);

  Sources all = sources;
  for (std::size_t k = loop.n_states(); k < step.d_out.size(); ++k)
    if (step.d_out[k]) all.emplace(step.d_out[k].id(), Source{loop.d_out[k], true});
  const std::vector<ValueId> read = frontier(step.graph, step.results(), keys_of(all));
  for (const bool per_step : {true, false})
    for (const ValueId id : read)
      if (all.at(id).per_step == per_step)
        operands.given.emplace(id, operands.add(all.at(id).outer, per_step, per_step ? "x" : "constant"));

  std::vector<ValueId> results;
  for (const std::size_t i : order) results.push_back(step.d_in[i].id());
  const Values copies = transplant(*operands.body, step.graph, results, operands.given);
  const std::size_t first_sum = n_states - sums.size();
  for (std::size_t r = 0; r < copies.size(); ++r) {
    const bool sum = r >= first_sum && r < n_states;
    operands.body->output((r < n_states ? "next" : "y") + std::to_string(r),
                          sum ? sums[r - first_sum] + copies[r] : copies[r]);
  }
  const Values out = scan_body(operands.outer,
                               {{"steps", loop.layout.steps},
                                {"states", static_cast<std::int64_t>(n_states)},
                                {"sequences", operands.n_sequences},
                                {"reverse", !loop.layout.reverse},
                                {"lengths", false},
                                {"reset", false}},
                               operands.body);
  Values d_in(loop.in.size());
  for (std::size_t r = 0; r < order.size(); ++r) d_in[order[r]] = out[r];
  return d_in;
}

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
  for (std::size_t i = 0; i < gradients.size(); ++i) d_in[static_cast<std::size_t>(d_inputs[i])] = gradients[i];
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
  const Values d_loop = emit_backward(loop, *step, sources);
  const ScanLayout layout = scan_layout(b.node);
  const std::size_t n_masks =
      loop.in.size() - static_cast<std::size_t>(layout.n_states + layout.n_sequences + layout.n_constants);
  for (std::size_t i = 0; i + n_masks < loop.in.size(); ++i)
    d_in[i] = d_loop[i < static_cast<std::size_t>(layout.n_states + layout.n_sequences) ? i : i + n_masks];
  return d_in;
}

constexpr RuleRow k_scan_rows[] = {{Op::scan, scan_rule}};

}  // namespace

std::span<const RuleRow> scan_rules() { return k_scan_rows; }

}  // namespace unroll
