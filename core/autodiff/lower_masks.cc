// SPDX-License-Identifier: Apache-2.0
// live[t,b] = t < lengths[b]. With the step function f: s' = live ? f(reset ? 0 : s) : s, y = live ? y : 0. A row that
// is not live has no effect, so it does not matter that f resets it.
#include "core/autodiff/lower_masks.h"

#include <algorithm>
#include <string>

#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;

Values part(const Values& values, int from, int count) {
  return {values.begin() + from, values.begin() + from + count};
}

std::string free_name(const Graph& body, std::string name) {
  const auto taken = [&](const NamedValue& input) { return input.name == name; };
  while (std::any_of(body.inputs().begin(), body.inputs().end(), taken)) name += "_";
  return name;
}

// mask [B] as [B,1,...] so that it broadcasts to a row of `like`.
Value over_rows(Value mask, Value like) {
  Shape shape = mask.shape();
  while (shape.rank() < like.rank()) shape = shape.inserted(shape.rank(), 1);
  return reshape(mask, shape);
}

// The body with mask inputs after its sequences.
std::shared_ptr<const Graph> masked_body(const Graph& body, const ScanLayout& layout, Type mask) {
  auto masked = std::make_shared<Graph>();
  Values in;
  Value live, reset;
  for (int i = 0; i <= static_cast<int>(body.inputs().size()); ++i) {
    if (i == layout.n_states + layout.n_sequences) {
      if (layout.has_lengths) live = masked->input(free_name(body, "live"), mask);
      if (layout.has_reset) reset = masked->input(free_name(body, "reset"), mask);
    }
    if (i == static_cast<int>(body.inputs().size())) break;
    const NamedValue& input = body.inputs()[static_cast<std::size_t>(i)];
    in.push_back(masked->input(input.name, body.type(input.value)));
  }
  const Values states = part(in, 0, layout.n_states);
  if (reset)
    for (int i = 0; i < layout.n_states; ++i) {
      Value& state = in[static_cast<std::size_t>(i)];
      state = select(over_rows(reset, state), scalar_like(state, 0), state);
    }
  Values out = inline_graph(*masked, body, in);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (live) out[i] = select(over_rows(live, out[i]), out[i], i < states.size() ? states[i] : scalar_like(out[i], 0));
    masked->output(body.outputs()[i].name, out[i]);
  }
  return masked;
}

}  // namespace

std::vector<Value> lower_masks(Graph& graph, std::int32_t id) {
  const Node node = graph.node(id);
  const ScanLayout layout = scan_layout(node);
  Values in, out;
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) out.push_back(graph.value({id, k}));
  if (!layout.has_lengths && !layout.has_reset) return out;

  for (const ValueId input : node.inputs) in.push_back(graph.value(input));
  const int n_data = layout.n_states + layout.n_sequences;
  Values inputs = part(in, 0, n_data);
  Shape shape;  // [T,B]
  if (layout.has_lengths) {
    const Value lengths = in[static_cast<std::size_t>(n_data + layout.n_constants)];
    shape = Shape{layout.steps, lengths.shape()[0]};
    inputs.push_back(less(iota(graph, shape, 0), lengths));
  }
  if (layout.has_reset) {
    inputs.push_back(in.back());
    shape = in.back().shape();
  }
  const Values constants = part(in, n_data, layout.n_constants);
  inputs.insert(inputs.end(), constants.begin(), constants.end());

  Attributes attributes = node.attributes;
  attributes.set("sequences", static_cast<std::int64_t>(layout.n_sequences + layout.has_lengths + layout.has_reset));
  attributes.set("lengths", false);
  attributes.set("reset", false);
  return scan_body(inputs, std::move(attributes), masked_body(*node.body, layout, {DType::b8, shape.removed(0)}));
}

}  // namespace unroll
