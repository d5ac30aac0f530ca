// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. A Scan becomes a scan, and so does a Loop with a known trip count. It is plain if its condition
// stays true, masked if only states are used. It is unrolled if the condition can be computed at build time.
#include <algorithm>
#include <numeric>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

void require_depth(const Call& call) {
  if (call.names.depth >= k_max_depth) call.refuse("subgraphs are nested too deeply");
}

// Adds the subgraph's nodes to the same graph.
std::vector<Value> inlined(Call& call, const GraphDef& body, std::span<const Value> inputs) {
  require_depth(call);
  if (body.inputs.size() != inputs.size()) call.refuse("the subgraph has another number of inputs");
  Names inner{.frame = call.names.frame, .outer = &call.names, .attributes = call.names.attributes,
              .depth = call.names.depth + 1};
  for (std::size_t i = 0; i < inputs.size(); ++i) inner.values.insert_or_assign(body.inputs[i].name, inputs[i]);
  return call.importer.build_graph(inner, body);
}

std::vector<Value> if_else(Call& call) {
  const Value condition = call.in(0);
  const GraphDef& yes = call.subgraph("then_branch");
  const GraphDef& no = call.subgraph("else_branch");
  if (const auto known = call.importer.literal(call.names.frame, condition))
    return inlined(call, known->elements() > 0 && known->at(0) != 0 ? yes : no, {});
  const std::vector<Value> a = inlined(call, yes, {}), b = inlined(call, no, {});
  if (a.size() != b.size()) call.refuse("the branches differ in outputs");
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].type() != b[i].type()) {
      call.unsupported("the branches give " + a[i].type().text() + " and " + b[i].type().text() +
                       ", and the condition is not known before the graph runs");
    }
    outputs.push_back(select(reshape(condition, Shape{}), a[i], b[i]));
  }
  return outputs;
}

// Builds a scan with the subgraph as step. `step` receives the body's names, bound to its captures, and its values.
using BodyStep = std::function<StepResult(Names& names, const StepValues& at)>;
ScanResult scan_subgraph(Call& call, const GraphDef& body, std::span<const Value> states,
                         std::span<const Value> sequences, const ScanOptions& options, const BodyStep& step) {
  require_depth(call);
  const std::map<std::string, Value> outer = call.importer.captures(call.names, body);
  std::vector<Value> constants;
  for (const auto& [name, value] : outer) constants.push_back(value);
  const auto in_body = [&](const StepValues& at) {
    Graph& graph = !at.states.empty()      ? at.states[0].graph()
                   : !at.sequences.empty() ? at.sequences[0].graph()
                                           : at.constants[0].graph();
    Frame frame{graph, &call.names.frame};
    Names names{.frame = frame, .attributes = call.names.attributes, .depth = call.names.depth + 1};
    call.importer.bind_captures(names, outer, at.constants);
    return step(names, at);
  };
  return scan(states, sequences, constants, in_body, options);
}

// Builds one loop over [T,...] sequences. `directions`, 1 for backward, has one entry per sequence and output.
ScanResult one_scan(Call& call, const GraphDef& body, std::span<const Value> states, std::vector<Value> sequences,
                    const Ints& in_directions, const Ints& out_directions) {
  const std::size_t n_states = states.size();
  const auto is_back = [](const Ints& list, std::size_t i) { return i < list.size() && list[i] != 0; };
  bool reverse = !sequences.empty();
  for (std::size_t i = 0; i < sequences.size(); ++i) reverse = reverse && is_back(in_directions, i);
  for (std::size_t i = 0; i < sequences.size(); ++i)
    if (!reverse && is_back(in_directions, i)) sequences[i] = flipped(sequences[i], 0);
  const auto step = [&](Names& names, const StepValues& at) -> StepResult {
    for (std::size_t i = 0; i < body.inputs.size(); ++i) {
      const Value value = i < n_states ? at.states[i] : at.sequences[i - n_states];
      names.values.insert_or_assign(body.inputs[i].name, value);
    }
    const std::vector<Value> outputs = call.importer.build_graph(names, body);
    const auto split_at = outputs.begin() + static_cast<std::ptrdiff_t>(n_states);
    return {{outputs.begin(), split_at}, {split_at, outputs.end()}};
  };
  const ScanOptions options{.reverse = reverse, .lengths = {}, .reset = {}};
  ScanResult result = scan_subgraph(call, body, states, sequences, options, step);
  // With `reverse` the output of iteration k is at T-1-k, as a backward (prepending) output requires.
  for (std::size_t i = 0; i < result.outputs.size(); ++i)
    if (is_back(out_directions, i) != reverse) result.outputs[i] = flipped(result.outputs[i], 0);
  return result;
}

struct ScanParts {
  const GraphDef& body;
  std::size_t n_states, n_sequences, n_outputs;
};
ScanParts scan_parts(Call& call, std::size_t n_inputs) {
  const GraphDef& body = call.subgraph("body");
  const std::int64_t given = call.integer("num_scan_inputs", 0);
  if (given < 1 || given > static_cast<std::int64_t>(n_inputs)) call.refuse("num_scan_inputs is invalid");
  const auto n_sequences = static_cast<std::size_t>(given);
  const std::size_t n_states = n_inputs - n_sequences;
  if (body.inputs.size() != n_inputs || body.outputs.size() < n_states)
    call.refuse("the body has another number of inputs or outputs");
  return {body, n_states, n_sequences, body.outputs.size() - n_states};
}

std::vector<Value> joined(ScanResult result) {
  result.states.insert(result.states.end(), result.outputs.begin(), result.outputs.end());
  return std::move(result.states);
}

// Opset 8: batch is axis 0 and time axis 1. The body has neither axis, so there is one loop per batch entry.
std::vector<Value> scan_8(Call& call) {
  const ScanParts parts = scan_parts(call, call.n_inputs() - 1);
  const Ints directions = call.list("directions").value_or(Ints{});
  const bool has_lengths = call.has(0);
  const Ints lengths = has_lengths ? call.ints(0) : Ints{};
  std::vector<Value> inputs;
  for (std::size_t i = 1; i < call.n_inputs(); ++i) inputs.push_back(call.in(i));
  const std::int64_t batch = inputs[0].rank() > 0 ? inputs[0].shape()[0] : 0;
  if (batch == 0 || (has_lengths && static_cast<std::int64_t>(lengths.size()) != batch))
    call.refuse("the batch is empty or differs from sequence_lens");
  std::vector<std::vector<Value>> rows(parts.n_states + parts.n_outputs);
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<Value> states, sequences;
    std::int64_t steps = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].rank() < (i < parts.n_states ? 1 : 2)) call.refuse("an input lacks its batch or time axis");
      Value entry = row(inputs[i], b);
      if (i >= parts.n_states) {
        steps = entry.shape()[0];
        if (has_lengths) entry = slice(entry, 0, 0, lengths[b]);
      }
      (i < parts.n_states ? states : sequences).push_back(entry);
    }
    std::vector<Value> outputs = joined(one_scan(call, parts.body, states, sequences, directions, {}));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (i >= parts.n_states && outputs[i].shape()[0] < steps)
        outputs[i] = pad(outputs[i], 0, 0, steps - outputs[i].shape()[0]);
      rows[i].push_back(outputs[i]);
    }
  }
  std::vector<Value> outputs;
  for (const std::vector<Value>& each : rows) outputs.push_back(stack(each));
  return outputs;
}

std::vector<Value> scan_node(Call& call) {
  if (call.opset() < 9) return scan_8(call);
  const ScanParts parts = scan_parts(call, call.n_inputs());
  const Ints in_axes = call.list("scan_input_axes").value_or(Ints(parts.n_sequences));
  const Ints out_axes = call.list("scan_output_axes").value_or(Ints(parts.n_outputs));
  const Ints in_directions = call.list("scan_input_directions").value_or(Ints{});
  const Ints out_directions = call.list("scan_output_directions").value_or(Ints{});
  if (in_axes.size() != parts.n_sequences || out_axes.size() != parts.n_outputs)
    call.refuse("the lists of axes differ from the inputs or outputs in length");
  std::vector<Value> states, sequences;
  for (std::size_t i = 0; i < parts.n_states; ++i) states.push_back(call.in(i));
  for (std::size_t i = 0; i < parts.n_sequences; ++i) {
    const Value x = call.in(parts.n_states + i);
    sequences.push_back(moved_axis(x, call.axis(in_axes[i], x.rank()), 0));
  }
  ScanResult result = one_scan(call, parts.body, states, sequences, in_directions, out_directions);
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    Value& y = result.outputs[i];
    y = moved_axis(y, 0, call.axis(out_axes[i], y.rank()));
  }
  return joined(std::move(result));
}

struct LoopParts {
  const GraphDef& body;
  std::vector<Value> states;
  std::size_t n_outputs;
  Graph& graph;
};

// True if the body returns its input condition, or true, judging by names only.
bool stays_true(const GraphDef& body) {
  std::string name = body.outputs[0].name;
  for (auto node = body.nodes.rbegin(); node != body.nodes.rend(); ++node) {
    if (node->outputs.size() != 1 || node->outputs[0] != name) continue;
    if (node->op == "Constant" && node->attributes.size() == 1 && node->attributes[0].t)
      return node->attributes[0].t->elements() == 1 && node->attributes[0].t->at(0) != 0;
    if (node->op != "Identity" || node->inputs.size() != 1) return false;
    name = node->inputs[0];
  }
  if (const auto found = body.initializers.find(name); found != body.initializers.end())
    return found->second->elements() == 1 && found->second->at(0) != 0;
  return name == body.inputs[1].name;
}

Value truth(Graph& graph) { return scalar(graph, DType::b8, 1); }

void bind_iteration(Names& names, const GraphDef& body, Value index, Value condition, std::span<const Value> states) {
  names.values.insert_or_assign(body.inputs[0].name, index);
  names.values.insert_or_assign(body.inputs[1].name, condition);
  for (std::size_t i = 0; i < states.size(); ++i) names.values.insert_or_assign(body.inputs[i + 2].name, states[i]);
}

// Builds a scan for a known trip count and a condition that is true. With `masked` the condition ends the loop.
ScanResult loop_scan(Call& call, const LoopParts& loop, std::int64_t trips, bool masked) {
  std::vector<Value> states = loop.states;
  if (masked) states.push_back(truth(loop.graph));
  const std::vector<Value> sequences{iota(loop.graph, {trips}, 0)};
  const auto step = [&](Names& names, const StepValues& at) -> StepResult {
    const std::span<const Value> before = std::span(at.states).first(loop.states.size());
    const Value live = masked ? at.states.back() : truth(names.frame.graph);
    bind_iteration(names, loop.body, at.sequences[0], live, before);
    const std::vector<Value> outputs = call.importer.build_graph(names, loop.body);
    StepResult result;
    for (std::size_t i = 0; i < before.size(); ++i)
      result.states.push_back(masked ? select(live, outputs[i + 1], before[i]) : outputs[i + 1]);
    if (masked) result.states.push_back(logical_and(live, reshape(outputs[0], Shape{})));
    result.outputs.assign(outputs.begin() + static_cast<std::ptrdiff_t>(1 + before.size()), outputs.end());
    return result;
  };
  ScanResult result = scan_subgraph(call, loop.body, states, sequences, {}, step);
  if (masked) result.states.pop_back();
  return result;
}

// Builds one copy of the body per iteration while the condition can be computed. Returns nullopt if it cannot.
std::optional<ScanResult> loop_unrolled(Call& call, const LoopParts& loop, std::int64_t trips) {
  ScanResult result{loop.states, {}};
  std::vector<std::vector<Value>> rows(loop.n_outputs);
  for (std::int64_t i = 0; i < trips; ++i) {
    if (i >= k_max_unrolled_steps) call.unsupported("unrolls to too many iterations");
    std::vector<Value> inputs{scalar(loop.graph, DType::i32, static_cast<double>(i)), truth(loop.graph)};
    inputs.insert(inputs.end(), result.states.begin(), result.states.end());
    const std::vector<Value> outputs = inlined(call, loop.body, inputs);
    const std::optional<Tensor> condition = call.importer.literal(call.names.frame, outputs[0]);
    if (!condition) return std::nullopt;
    for (std::size_t s = 0; s < loop.states.size(); ++s) result.states[s] = outputs[s + 1];
    for (std::size_t k = 0; k < rows.size(); ++k) rows[k].push_back(outputs[1 + loop.states.size() + k]);
    if (condition->at(0) == 0) break;
  }
  for (const std::vector<Value>& each : rows) {
    if (each.empty()) call.unsupported("scan outputs of a loop without iterations");
    result.outputs.push_back(stack(each));
  }
  return result;
}

std::vector<Value> loop_node(Call& call) {
  const GraphDef& body = call.subgraph("body");
  const std::size_t n_states = call.n_inputs() < 2 ? 0 : call.n_inputs() - 2;
  if (body.inputs.size() != n_states + 2 || body.outputs.size() < n_states + 1)
    call.refuse("the body has another number of inputs or outputs");
  LoopParts loop{body, {}, body.outputs.size() - 1 - n_states, call.graph()};
  for (std::size_t i = 0; i < n_states; ++i) loop.states.push_back(call.in(i + 2));
  std::int64_t trips = call.has(0) ? std::max<std::int64_t>(call.integer(0), 0) : k_max_unrolled_steps + 1;
  if (call.has(1) && call.literal(1).at(0) == 0) trips = 0;
  if (trips == 0 || stays_true(body)) {
    if (trips > 0 && !call.has(0)) call.refuse("never ends");
    try {
      return joined(loop_scan(call, loop, trips, /*masked=*/false));
    } catch (const Error& e) {  // a shape or an index depends on the iteration: one copy of the body for each
      if (e.kind() != ErrorKind::unsupported) throw;
    }
  }
  if (auto result = loop_unrolled(call, loop, trips)) return joined(std::move(*result));
  if (loop.n_outputs > 0 || !call.has(0)) {
    call.unsupported("the number of iterations depends on values that are not known before the graph runs");
  }
  return joined(loop_scan(call, loop, trips, /*masked=*/true));
}

constexpr OperatorRow k_control_rows[] = {
    {"If", 1, if_else},
    {"Loop", 1, loop_node},
    {"Scan", 8, scan_node},
};

}  // namespace

std::span<const OperatorRow> control_rows() { return k_control_rows; }

}  // namespace unroll::onnx
