// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/activation_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "core/autodiff/lower_masks.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr double k_gate_low = 0.1, k_saturated_at = 0.9;

// An output of a step that is an activation, and between which bounds it is not saturated.
struct Activation {
  ValueId value;
  double low, high;
  bool saturates;  // relu has no upper end: only its dead units count
  bool may_die;    // a gate that is always open or shut is no dead unit
};

std::optional<Activation> activation_of(Graph& body, std::int32_t id) {
  const Node& node = body.node(id);
  if (!is_float(node.outputs[0].dtype) || node.outputs[0].shape.rank() < 2) return std::nullopt;
  const ValueId value{id, 0};
  if (node.op == Op::sigmoid) return Activation{value, k_gate_low, k_saturated_at, true, false};
  if (node.op == Op::tanh) return Activation{value, -k_saturated_at, k_saturated_at, true, true};
  const auto is_zero = [&](ValueId operand) { return is_splat_of(body.value(operand), 0); };
  if (node.op == Op::maximum && (is_zero(node.inputs[0]) || is_zero(node.inputs[1])))
    return Activation{value, 0, HUGE_VAL, false, true};
  return std::nullopt;
}

// The number of rows of `flag` [B,...,W] that are set, f32 [W]. With `live` b8 [B], only live rows count.
Value count_rows(Value flag, Value live) {
  if (live) {
    Shape shape = live.shape();
    while (shape.rank() < flag.rank()) shape = shape.inserted(shape.rank(), 1);
    flag = logical_and(flag, reshape(live, shape));
  }
  Graph& graph = flag.graph();
  const Value one = scalar(graph, DType::f32, 1), zero = scalar(graph, DType::f32, 0);
  Ints axes(static_cast<std::size_t>(flag.rank() - 1));
  std::iota(axes.begin(), axes.end(), 0);
  return reduce_sum(select(flag, one, zero), axes);
}

// The body with, for each activation, how many rows are at its lower and at its upper end: two more outputs [W].
std::shared_ptr<const Graph> counting_body(const Graph& body, const std::vector<Activation>& activations,
                                           int live_input) {
  std::vector<ValueId> more;
  for (const Activation& a : activations) more.push_back(a.value);
  const auto extended = rewrite(body, [](const RewriteNode&) { return std::vector<Value>{}; }, more);
  auto counting = std::make_shared<Graph>();
  std::vector<Value> inputs;
  for (const NamedValue& input : body.inputs()) inputs.push_back(counting->input(input.name, body.type(input.value)));
  const std::vector<Value> outputs = inline_graph(*counting, *extended, inputs);
  const std::size_t n = body.outputs().size();
  for (std::size_t i = 0; i < n; ++i) counting->output(body.outputs()[i].name, outputs[i]);
  const Value live = live_input < 0 ? Value() : inputs[live_input];
  for (std::size_t k = 0; k < activations.size(); ++k) {
    const Value y = outputs[n + k];
    const std::string name = "count." + std::to_string(k);
    const Activation& a = activations[k];
    counting->output(name + ".low", count_rows(less_equal(y, scalar_like(y, a.low)), live));
    if (a.saturates) counting->output(name + ".high", count_rows(less_equal(scalar_like(y, a.high), y), live));
  }
  return counting;
}

// The number of rows that take part in all steps together, f32 [].
Value n_rows(Graph& graph, const Node& node, const ScanLayout& layout, std::int64_t batch) {
  if (!layout.has_lengths) return scalar(graph, DType::f32, static_cast<double>(layout.steps * batch));
  const int at = layout.n_states + layout.n_sequences + layout.n_constants;
  const Value lengths = graph.value(node.inputs[static_cast<std::size_t>(at)]);
  const Value live = minimum(lengths, scalar_like(lengths, static_cast<double>(layout.steps)));
  return maximum(sum(cast(live, DType::f32)), scalar(graph, DType::f32, 1));
}

std::string loop_name(const Node& scan, std::size_t index) {
  if (scan.origin.layer.empty()) return "loop" + std::to_string(index);
  return scan.origin.layer + (scan.attributes.get_or<bool>("reverse", false) ? "_reverse" : "");
}

std::optional<LoopActivations> count_loop(Graph& graph, std::int32_t id, std::size_t index) {
  const Node node = graph.node(id);
  const ScanLayout layout = scan_layout(node);
  // Masks first: a body that adds up rows must know which of them are live.
  const std::vector<Value> lowered = lower_masks(graph, id);
  const Node plain = lowered.empty() ? node : lowered[0].node();
  const std::shared_ptr<Graph> step = drop_dead(*plain.body);
  std::vector<Activation> activations;
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(step->nodes().size()); ++k)
    if (const auto found = activation_of(*step, k)) activations.push_back(*found);
  if (activations.empty() || layout.steps == 0) return std::nullopt;

  std::vector<Value> inputs;
  for (const ValueId input : plain.inputs) inputs.push_back(graph.value(input));
  const int live_input = layout.has_lengths ? layout.n_states + layout.n_sequences : -1;
  const auto body = counting_body(*step, activations, live_input);
  const std::vector<Value> results = scan_body(inputs, plain.attributes, body);

  std::size_t at = plain.outputs.size();
  Value saturated = scalar(graph, DType::f32, 0), dead = saturated;
  double n_saturating = 0, n_units = 0;  // columns
  const auto count = [&] { return reduce_sum(results[at++], {0}); };  // [W]
  for (const Activation& a : activations) {
    const Shape& shape = step->type(a.value).shape;
    const std::int64_t width = shape[shape.rank() - 1];
    const Value n = n_rows(graph, node, layout, shape.elements() / std::max<std::int64_t>(width, 1));
    const Value low = count(), high = a.saturates ? count() : Value();
    const Value one = scalar_like(n, 1), zero = scalar_like(n, 0);
    const auto full = [&](Value rows) { return sum(select(less_equal(n, rows), one, zero)); };
    if (a.saturates) {
      saturated = saturated + sum(low + high) / n;
      n_saturating += static_cast<double>(width);
    }
    if (!a.may_die) continue;
    dead = dead + full(low) + (high ? full(high) : zero);
    n_units += static_cast<double>(width);
  }
  return LoopActivations{loop_name(node, index), saturated * (1 / std::max(n_saturating, 1.0)),
                         dead * (1 / std::max(n_units, 1.0))};
}

}  // namespace

std::vector<LoopActivations> count_activations(Graph& graph) {
  std::vector<std::int32_t> loops;
  const auto look = [&](std::int32_t from, std::int32_t to) {
    for (std::int32_t id = from; id < to; ++id)
      if (graph.node(id).op == Op::scan) loops.push_back(id);
  };
  const auto size = [&] { return static_cast<std::int32_t>(graph.nodes().size()); };
  const std::int32_t n = size();
  for (std::int32_t id = 0; id < n; ++id) {
    const Node node = graph.node(id);
    if (node.op == Op::scan) loops.push_back(id);
    if (node.op != Op::rnn && node.op != Op::gru && node.op != Op::lstm) continue;
    std::vector<Value> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(graph.value(input));
    const std::int32_t from = size();
    const OriginScope of_node(graph, node.origin);
    inline_graph(graph, *composite_body(graph, node), inputs);
    look(from, size());
  }
  std::vector<LoopActivations> list;
  std::set<std::string> names;
  for (const std::int32_t id : loops) {
    auto found = count_loop(graph, id, list.size());
    if (!found) continue;
    const std::string name = found->loop;
    for (int k = 2; !names.insert(found->loop).second; ++k) found->loop = name + "#" + std::to_string(k);
    list.push_back(std::move(*found));
  }
  return list;
}

}  // namespace unroll
