// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/first_nonfinite.h"

#include <cmath>
#include <vector>

#include "core/train/device/node_words.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll {

namespace {

struct Replay {
  Graph graph;
  std::int32_t n_forward = 0;  // nodes of the forward pass; those behind are of the backward pass
};

void build(Replay& replay, const Task& task, const Batch& batch, double loss_scale) {
  Scope scope(replay.graph, true);
  const TaskGraph t = task.build(scope, batch);
  replay.n_forward = static_cast<std::int32_t>(replay.graph.nodes().size());
  std::vector<Value> parameters;
  for (const ParameterSpec& p : scope.parameters()) parameters.push_back(replay.graph.find_input(p.name));
  differentiate(loss_scale == 1 ? t.loss : t.loss * loss_scale, parameters);
}

std::vector<ValueId> float_values(const Graph& graph) {
  std::vector<ValueId> list;
  const auto n = static_cast<std::int32_t>(graph.nodes().size());
  for (std::int32_t id = 0; id < n; ++id) {
    const Node& node = graph.node(id);
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      if (is_float(node.outputs[k].dtype) && node.outputs[k].shape.elements() > 0)
        list.push_back({id, static_cast<std::int32_t>(k)});
  }
  return list;
}

// 1 where something is not finite.
Value flag(Value x) {
  Ints axes;
  for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  const Value bad = select(is_finite(x), scalar(x.graph(), DType::f32, 0), scalar(x.graph(), DType::f32, 1));
  return reshape(axes.empty() ? bad : reduce_max(bad, axes), {1});
}

// Time comes first in what recurrent nodes return, then the rows of the batch.
std::string place(const Tensor& tensor, bool recurrent) {
  std::int64_t index = 0;
  while (std::isfinite(tensor.at(index))) ++index;
  std::string text = " is " + std::string(std::isnan(tensor.at(index)) ? "NaN" : "infinite") +
                     element_words(tensor.type(), index);
  const Ints at = coordinates(tensor.shape(), index);
  if (recurrent && at.size() == 3)
    text += ": time step " + std::to_string(at[0]) + ", row " + std::to_string(at[1]);
  return text;
}

bool is_recurrent(const Node& node) {
  for (const Op op : {Op::scan, Op::rnn, Op::gru, Op::lstm, Op::gradient})
    if (node.op == op) return true;
  return false;
}

}  // namespace

std::string first_nonfinite(const Task& task, const Batch& batch, const TensorMap& tensors, Backend& backend,
                            Precision precision, double loss_scale) {
  PlanOptions options;
  options.precision = precision;
  Replay replay;
  build(replay, task, batch, loss_scale);
  Graph& graph = replay.graph;
  TensorMap feed;
  for (const NamedValue& input : graph.inputs()) {
    const auto given = batch.inputs.find(input.name);
    feed.emplace(input.name, given != batch.inputs.end() ? given->second : tensors.at(input.name));
  }
  const std::vector<ValueId> values = float_values(graph);
  std::vector<Value> flags;
  for (const ValueId id : values) flags.push_back(flag(graph.value(id)));
  graph.output("flags", concat(flags, 0));
  const Tensor bad = evaluate(graph, backend, feed, options).at("flags");

  std::int64_t first = 0;
  while (first < bad.elements() && bad.at(first) == 0) ++first;
  if (first == bad.elements()) return {};
  const auto from = values.begin() + first;
  ValueId id = *from;
  // If a node has several bad results, name the one with most dimensions: all steps rather than the last.
  for (auto at = from; at != values.end() && at->node == id.node; ++at)
    if (bad.at(at - values.begin()) != 0 && graph.type(*at).shape.rank() > graph.type(id).shape.rank()) id = *at;
  Replay again;
  build(again, task, batch, loss_scale);
  again.graph.output("value", again.graph.value(id));
  TensorMap used;
  for (const NamedValue& input : again.graph.inputs()) used.emplace(input.name, feed.at(input.name));
  const Node& node = graph.node(id.node);
  const Tensor value = evaluate(again.graph, backend, used, options).at("value");
  const std::string pass = node.op == Op::input           ? ""
                           : id.node < replay.n_forward ? "in the forward pass "
                                                          : "in the backward pass ";
  return pass + node_words({graph}, node) + place(value, is_recurrent(node));
}

}  // namespace unroll
