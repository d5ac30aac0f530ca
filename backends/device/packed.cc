// SPDX-License-Identifier: Apache-2.0
// Packed loops: which values have rows, and by which nodes a step stores what the loop stacks.
#include "backends/device/packed.h"

#include <algorithm>

#include "backends/common/hazards.h"
#include "backends/device/walk.h"
#include "unroll/ir/ops.h"

namespace unroll::device {

std::int64_t packed_batch(const Plan& outer, std::int32_t scan) {
  const Graph& body = *outer.bodies[scan]->graph;
  return body.type(body.outputs()[0].value).shape[0];
}

PackedBody packed_body(const Plan& outer, std::int32_t scan) {
  const Node& node = outer.graph->node(scan);
  const Graph& graph = *outer.bodies[scan]->graph;
  const ScanLayout layout = scan_layout(node);
  const std::size_t n_states = layout.n_states;
  const auto is_kept = [&](std::size_t k) {
    return outer.storage[scan][k].place != Storage::Place::none;
  };
  PackedBody body{.n_states = layout.n_states,
                  .n_inputs = static_cast<int>(graph.inputs().size()),
                  .batch = packed_batch(outer, scan),
                  .reverse = layout.reverse};
  body.has_rows.assign(graph.nodes().size(), false);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    body.inputs.push_back(is_packed_sequence(outer, scan, i));
    body.has_rows[graph.inputs()[i].value.node] = i < n_states || body.inputs[i];
  }
  for (std::size_t n = 0; n < body.has_rows.size(); ++n)
    for (const ValueId in : graph.node(static_cast<std::int32_t>(n)).inputs)
      body.has_rows[n] = body.has_rows[n] || body.has_rows[in.node];
  for (std::size_t k = 0; k < node.outputs.size(); ++k) body.outputs.push_back(k >= n_states && is_kept(k));
  for (std::size_t i = 0; i < n_states; ++i) body.kept.push_back(is_kept(i));
  return body;
}

PackedBody::Way PackedBody::way_of(const Operand& operand, const Graph& body) const {
  Way way;
  if (operand.workspace) return way;
  const std::size_t index = operand.storage.index;
  if (operand.storage.place == Storage::Place::input && index < inputs.size()) {
    way.moves = inputs[index];
    way.row_elements = body.type(body.inputs()[index].value).shape.elements() / batch;
  } else if (operand.storage.place == Storage::Place::output) {
    way.moves = outputs[index];
    way.guards = way.moves || static_cast<int>(index) < n_states;
    way.row_elements = body.type(body.outputs()[index].value).shape.elements() / batch;
  }
  return way;
}

Operand PackedBody::live_rows() const {
  return {.storage = {Storage::Place::input, n_inputs, 0, {}}, .bytes = 2 * sizeof(std::uint32_t)};
}

Operand state_copy(const Plan& outer, std::int32_t scan, std::size_t state, int copy) {
  const Type& type = outer.graph->node(scan).outputs[state];
  const StateCopies at = state_copies(outer, scan, state);
  const std::size_t offset = at.first + (copy > 0 ? at.apart : 0), bytes = type.bytes() + (copy > 0 ? 0 : at.apart);
  return {.storage = {Storage::Place::arena, 0, offset, {}}, .bytes = bytes, .element = dtype_bytes(type.dtype)};
}

common::Expression Lowering::first_states(std::int32_t scan, std::size_t state, Operands& operands) {
  const ValueId from = graph().node(scan).inputs[state];
  const Type& type = graph().node(scan).outputs[state];
  const common::Strides dense = common::dense_strides(type.shape);
  common::Expression e;
  e.shape = type.shape;
  e.inputs.push_back({type.dtype, strides(from, type.shape)});
  e.results = {{0, dense}, {0, dense}};
  operands = {operand(from), state_copy(plan_, scan, state, 0), state_copy(plan_, scan, state, 1)};
  operands[1].bytes = type.bytes();
  return e;
}

std::vector<Lowering::FinalState> Lowering::final_states(std::int32_t scan, const Operand& rows) {
  const Node& node = graph().node(scan);
  const ScanLayout layout = scan_layout(node);
  std::vector<FinalState> all;
  for (std::int32_t i = 0; i < layout.n_states; ++i) {
    const auto& [dtype, shape] = node.outputs[i];
    const std::int64_t elements = shape.elements(), apart = state_copies(plan_, scan, i).apart / dtype_bytes(dtype);
    if (!is_stored({scan, i}) || elements == 0) continue;
    all.push_back({dtype,
                   {rows, operand(node.inputs[i]), state_copy(plan_, scan, i, 0), operand({scan, i})},
                   {elements, elements / packed_batch(plan_, scan), layout.steps, apart, layout.reverse}});
  }
  return all;
}

// A value that an elementwise node or a fused reduction computes is stored twice by it; a value that the step gets is
// stored by one that reads it.
std::vector<int> Lowering::set_packed(const Plan& outer, std::int32_t scan, const common::Hazards& hazards,
                                      StatePlaces& states, const std::function<bool(std::int32_t)>& runs) {
  packed_ = std::make_shared<const PackedBody>(packed_body(outer, scan));
  const std::size_t n_states = packed_->n_states;
  states.after.assign(n_states, -1), states.before.assign(n_states, -1), states.in_arena.assign(n_states, false);
  states.settled.assign(plan_.outputs.size(), true);
  std::vector<int> left;
  const auto works = [&](std::int32_t n) {
    return !hazards.tasks[n].writes.empty() && (!runs || runs(n));
  };
  for (std::size_t k = 0; k < plan_.outputs.size(); ++k) {
    const Storage& s = plan_.outputs[k];
    const ValueId value = graph().outputs()[k].value;
    const int output = static_cast<int>(k);
    if (s.place == Storage::Place::output && s.index == output) continue;
    if ((k >= n_states && !packed_->outputs[k]) || type(value).shape.elements() == 0) continue;
    const Node& maker = graph().node(value.node);
    if ((is_pointwise(maker) || maker.op == Op::fused_reduction) && works(value.node) && is_stored(value)) {
      ahead_.emplace_back(value, output);
      continue;
    }
    const std::int32_t reader = maker.op == Op::input ? reader_of(value, works) : -1;
    if (reader >= 0) through_.push_back({reader, value, output});
    else left.push_back(output);
  }
  return left;
}

// An elementwise node of the value's shape, or a fused reduction of the same rows; best one that reads the value
// anyway.
std::int32_t Lowering::reader_of(ValueId value, const std::function<bool(std::int32_t)>& works) const {
  std::int32_t reader = -1;
  const Shape& shape = type(value).shape;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph().nodes().size()); ++n) {
    const Node& node = graph().node(n);
    if (node.outputs.empty()) continue;
    const Shape& own = node.outputs[0].shape;
    const bool fits = is_pointwise(node) ? own == shape
                                          : node.op == Op::fused_reduction && own.rank() == 2 && shape.rank() == 2 &&
                                                own[0] == shape[0] && shape[1] > 1;
    if (!fits || !works(n)) continue;
    const bool reads = std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
    if (reads) return n;
    if (reader < 0) reader = n;
  }
  return reader;
}

}  // namespace unroll::device
